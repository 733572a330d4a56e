"""Scans: Mamba's mixers, made to continue from their states with any number of tokens."""

from typing import TYPE_CHECKING, Any, final
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn

from outrider.targets.passes.module_copies import with_replaced

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_scanning: "WeakKeyDictionary[PreTrainedModel, PreTrainedModel]" = WeakKeyDictionary()


def scanning(model: "PreTrainedModel") -> "PreTrainedModel":
    """Returns a model whose layers all continue from their states; it shares all tensors."""
    if model not in _scanning:
        _scanning[model] = with_replaced(model, _replacement)
    return _scanning[model]


@final
class SteppingMixer(nn.Module):
    """A mixer of the first Mamba (2312.00752), which reads further tokens one by one.

    transformers scans several tokens from an empty state, whatever the cache holds; only its step
    over a single token starts from the state. Mamba 2 and later scans don't have this limit.
    """

    def __init__(self, mixer: nn.Module) -> None:
        super().__init__()
        self.mixer: Any = mixer

    def forward(
        self, hidden_states: Float[Tensor, "batch tokens width"], cache_params: Any, **options: Any
    ) -> Float[Tensor, "batch tokens width"]:
        options["cache_params"] = cache_params
        if cache_params is None or not cache_params.has_previous_state(self.mixer.layer_idx):
            result: Tensor = self.mixer(hidden_states, **options)
            return result
        steps = [self.mixer(token, **options) for token in torch.split(hidden_states, 1, dim=1)]
        return torch.cat(steps, dim=1)


def _replacement(module: nn.Module) -> nn.Module | None:
    """Returns the replacement of a mixer of the first Mamba, None for any other module."""
    is_first = hasattr(module, "dt_proj") or hasattr(module, "dt_proj_weight")
    return SteppingMixer(module) if is_first and hasattr(module, "conv1d") else None
