"""Built-in parts: those of the core, and where the plugins of the other folders are."""

from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from outrider.plugins.command import Command
from outrider.plugins.hookspecs import Register, RegisterCommand, hookimpl


@cache
def builtin_modules() -> tuple[str, ...]:
    """Returns the modules that register the parts of this distribution, one for each folder.

    Every folder of `outrider.extras` that has a module `plugin` is one.
    """
    extras = find_spec("outrider.extras")
    folders = (extras.submodule_search_locations or ()) if extras else ()
    files = sorted(file for folder in folders for file in Path(folder).glob("*/plugin.py"))
    names = (f"outrider.extras.{file.parent.name}.plugin" for file in files)
    return (__name__, "outrider.drafters.plugin", "outrider.verifiers.plugin", *names)


@hookimpl
def register_policies(register: Register) -> None:
    register("fixed", "outrider.contract.policy:Fixed")


@hookimpl
def register_targets(register: Register) -> None:
    register("transformers", "outrider.targets.transformers:TransformersTarget")
    register("tabular", "outrider.targets.tabular:TabularTarget")


@hookimpl
def register_commands(register: RegisterCommand) -> None:
    compare = Command(
        "compare",
        "drafters side by side",
        "outrider.cli.commands.compare:compare",
        json=True,
        ranks=True,
        settings="outrider.cli.settings:Compare",
        check="outrider.cli.variants:variants_of",
    )
    register(compare)
    register(replace(compare, name="demo", help="a comparison, ready to run", ranks=False))
