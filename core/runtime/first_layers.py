"""Early exit: a model made of another's first layers, which shares all of its tensors."""

import copy
from typing import TYPE_CHECKING, Any

from outrider.errors import require

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def first_layers(model: "PreTrainedModel", layers: int | None) -> "PreTrainedModel":
    """Returns a model of the first `layers` layers of `model`, which shares all of its tensors.

    layers: defaults to four fifths of them.

    Raises:
        ConfigError: `model` does not have more layers than that.
    """
    total = int(model.config.get_text_config().num_hidden_layers)
    layers = total * 4 // 5 if layers is None else layers
    require(layers < total, "drafter.layers", layers, f"fewer than the target's {total} layers")
    # The decoders of transformers run layers[: config.num_hidden_layers], so a shallow copy of the
    # modules that lead to the layers is enough, if it has a config of its own.
    config = copy.deepcopy(model.config)
    config.get_text_config().num_hidden_layers = layers
    short: PreTrainedModel = _shell(model, config)
    base = _shell(model.base_model, config.get_text_config())
    setattr(short, model.base_model_prefix, base)
    return short


def _shell(module: Any, config: Any) -> Any:
    shell = copy.copy(module)
    shell._modules = dict(module._modules)
    shell.config = config
    return shell
