"""Copies of modules that share all tensors, with some of their parts replaced."""

import copy
from collections.abc import Callable
from typing import Any

from torch import nn


def replace_modules(module: Any, replace: Callable[[nn.Module], nn.Module | None]) -> Any:
    """Returns a module with some of its parts replaced, or the module itself if none is.

    Modules that lead to such a part are copied, without their tensors. All others are shared.

    replace: returns the replacement of a module, or None to look at its parts.
    """
    replacement = replace(module)
    if replacement is not None:
        return replacement
    children = {
        name: None if child is None else replace_modules(child, replace)
        for name, child in module._modules.items()
    }
    if all(child is module._modules[name] for name, child in children.items()):
        return module
    duplicate = copy.copy(module)
    duplicate._modules = children
    return duplicate
