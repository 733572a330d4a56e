"""Where the parts of a model are, which need not be on one device."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.pretrained import Model


def home(model: Model) -> torch.device:
    """Returns the device that a model takes its input on, and gives its output.

    The parts of a model with a `device_map` are run by accelerate's hooks, which move what goes
    from one to the next.
    """
    device = getattr(getattr(model, "_hf_hook", None), "execution_device", None)
    return model.device if device is None else torch.device(device)


def is_offloaded(model: Model) -> bool:
    """Returns whether some weights are read into the device at each pass, and not there between."""
    return any(weight.is_meta for weight in model.parameters())


def missing_weight(model: Model) -> str:
    """Returns the name of a weight that is nowhere, as in a model made on torch's meta device."""
    for name, module in model.named_modules():
        if not hasattr(module, "_hf_hook"):  # which has those that are offloaded
            for weight, value in module.named_parameters(recurse=False):
                if value.is_meta:
                    return f"{name}.{weight}".lstrip(".")
    return ""


def weight_at_home(model: Model, module: Any) -> Float[Tensor, "rows width"]:
    """Returns the weight of a part on its model's home, wherever it is between passes."""
    weight: Tensor = module.weight
    hook = getattr(module, "_hf_hook", None)
    if weight.is_meta and hook is not None:
        weight = hook.weights_map["weight"]
    return weight.to(home(model))
