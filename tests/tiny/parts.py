"""What an object holds, whatever the names of its attributes."""

from types import FunctionType, ModuleType
from typing import Any, TypeVar

from torch import Tensor

Held = TypeVar("Held")


def held(whole: object, kind: type[Held]) -> Held:
    """Returns the first object of a class that another one holds, at the least depth."""
    waiting, seen = [whole], {id(whole): whole}
    for thing in waiting:
        for part in _parts(thing):
            if isinstance(part, kind):
                return part
            if id(part) not in seen:
                seen[id(part)] = part
                waiting.append(part)
    raise AssertionError(f"{type(whole).__name__} holds no {kind.__name__}")


def _parts(whole: Any) -> list[Any]:
    if isinstance(whole, type | FunctionType | ModuleType | Tensor):
        return []
    if isinstance(whole, dict | list | tuple):
        return list(whole.values() if isinstance(whole, dict) else whole)
    names = [name for owner in type(whole).__mro__ for name in getattr(owner, "__slots__", ())]
    return [*getattr(whole, "__dict__", {}).values(), *(getattr(whole, n, None) for n in names)]
