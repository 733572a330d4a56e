"""Outrider: speculative decoding with any drafter.

>>> import outrider
>>> outrider.generate("smollm2", "Repeat: one, two, three.", drafter="prompt_lookup").text
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outrider.public import *

__version__ = "0.1.0"

LATE = {
    **dict.fromkeys(("Command", "hookimpl"), "outrider.plugins.hookspecs"),
    **dict.fromkeys(("build", "compose"), "outrider.plugins.config"),
    **dict.fromkeys(("Comparison", "compare"), "outrider.cli.compared"),
}
"""The names that come without the others, or without whose libraries the others come."""


def __getattr__(name: str) -> Any:
    """Returns a public name, whose module is imported on first use (PEP 562).

    So `import outrider` costs nothing, nor does `outrider --help`: PyTorch alone takes a second.
    What a plugin registers with is at hand without it, and so is each module; decoding comes
    without Hydra.
    """
    if find_spec(f"outrider.{name}") is not None:
        return import_module(f"outrider.{name}")
    if name in LATE:
        return getattr(import_module(LATE[name]), name)
    public = import_module("outrider.public")
    if name != "__all__" and name not in public.__all__:
        raise AttributeError(f"module 'outrider' has no attribute {name!r}")
    return getattr(public, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module("outrider.public").__all__})
