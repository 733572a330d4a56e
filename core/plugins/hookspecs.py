"""The hooks that a plugin may implement; the built-in parts implement the same ones."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Protocol, final

import pluggy

hookspec: pluggy.HookspecMarker = pluggy.HookspecMarker("outrider")
hookimpl: pluggy.HookimplMarker = pluggy.HookimplMarker("outrider")


@final
@dataclass(frozen=True, slots=True)
class Command:
    """A command of the console script.

    name: what users type, such as `serve-check`.
    help: what it does, in a few words.
    run: the function, or `"module:name"`. It takes the config that Hydra composes from the file
        `NAME.yaml` on the search path, or the list of arguments if the command is `plain`.
    plain: whether it takes arguments as other programs do, and has no config.
    json: whether `--json` makes it print its result as JSON; see `outrider.base.terminal`.
    distributed: whether it may run with a target that is spread over several processes.
    settings: the dataclass of its settings, or `"module:name"`: their types and bounds. `run` is
        then given an instance instead of the config. Its module should import little.
    check: a function, or `"module:name"`, that raises `ConfigError` for settings that can't run. It
        is asked about all jobs of a sweep before the first one starts.
    extra: the group of the distribution's optional dependencies that it needs, if any.
    words: a function, or `"module:name"`, that returns settings for the words that are none, such
        as an address. Defaults to none, so that Hydra refuses them.
    """

    name: str
    help: str
    run: Callable[[Any], None] | str
    plain: bool = False
    json: bool = False
    distributed: bool = False
    settings: type | str | None = None
    check: Callable[[Any], None] | str | None = None
    extra: str | None = None
    words: Callable[[list[str]], list[str]] | str | None = None

    @property
    def settings_class(self) -> Any:
        """Returns the dataclass of its settings, which is imported only now; None without one."""
        return resolve_name(self.settings) if isinstance(self.settings, str) else self.settings


class Register(Protocol):
    """Takes a name, which becomes the Hydra option, and the class behind it.

    Instead of the class, it also takes a function annotated to return it: a preset of its
    arguments. Either may be given as `"module:name"`, which is imported when it is first used.

    extra: the group of the distribution's optional dependencies that the part needs, if any.
    """

    def __call__(
        self, name: str, factory: Callable[..., Any] | str, *, extra: str | None = None
    ) -> None: ...


RegisterCommand = Callable[[Command], None]


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
def register_constraints(register: Register) -> None:
    """Registers constraints on texts: `register("regex", regex)`."""


@hookspec
def register_data_sources(register: Register) -> None:
    """Registers functions that return prompts: `register("jsonl", jsonl)`."""


@hookspec
def register_recipes(register: Register) -> None:
    """Registers recipes of training: `register("bigram", TableRecipe)`."""


@hookspec
def register_reports(register: Register) -> None:
    """Registers what follows a run, such as a logger: `register("page", Page)`."""


@hookspec
def register_scores(register: Register) -> None:
    """Registers scores of answers: `register("rouge2", Rouge2)`."""


@hookspec
def register_commands(register: RegisterCommand) -> None:
    """Registers commands: `register(Command("view", "look at runs", "my_package:view"))`."""


@hookspec
def wrap_command(  # type: ignore[empty-body]
    command: Command, arguments: Sequence[str]
) -> AbstractContextManager[None]:
    """Returns a context in which a command runs on its settings; it may end this process."""


@hookspec
def config_search_paths() -> list[str]:  # type: ignore[empty-body]
    """Returns Hydra search paths that hold presets: `["pkg://outrider_my_bigram.conf"]`."""
