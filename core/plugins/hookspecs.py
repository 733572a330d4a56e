"""The hooks that a plugin may implement; the built-in parts implement the same ones."""

from collections.abc import Callable
from typing import Any

import pluggy

hookspec: pluggy.HookspecMarker = pluggy.HookspecMarker("outrider")
hookimpl: pluggy.HookimplMarker = pluggy.HookimplMarker("outrider")

Register = Callable[[str, Callable[..., Any]], None]
"""Takes a name, which becomes the Hydra option, and the class behind it.

Instead of the class, it also takes a function annotated to return it: a preset of its arguments.
"""


@hookspec
def register_drafters(register: Register) -> None:
    """Registers drafters: `register("my_bigram", MyBigram)`."""


@hookspec
def register_verifiers(register: Register) -> None:
    """Registers acceptance rules: `register("token", Token)`."""


@hookspec
def register_policies(register: Register) -> None:
    """Registers policies for how long to draft: `register("fixed", Fixed)`."""


@hookspec
def register_targets(register: Register) -> None:
    """Registers targets: `register("tabular", TabularTarget)`."""


@hookspec
def register_engines(register: Register) -> None:
    """Registers engines, which run the passes of models: `register("packed", PackedWeights)`."""


@hookspec
def config_search_paths() -> list[str]:  # type: ignore[empty-body]
    """Returns Hydra search paths that hold presets: `["pkg://outrider_my_bigram.conf"]`."""
