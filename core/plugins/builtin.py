"""Built-in parts: those of the core, and where the plugins of the other folders are."""

from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from outrider.plugins.hookspecs import Command, Register, RegisterCommand, hookimpl

FOLDERS = ("drafters", "verifiers", "policies", "constraints")
"""The roles whose parts have a folder of their own."""


@cache
def builtin_modules() -> tuple[str, ...]:
    """Returns the modules that register the parts of this distribution, one for each folder.

    Every folder of `outrider.extras` that has a module `plugin` is one.
    """
    names = (f"outrider.extras.{extra}.plugin" for extra in _extras_with("plugin.py"))
    return (__name__, *(f"outrider.{folder}.plugin" for folder in FOLDERS), *names)


@hookimpl
def config_search_paths() -> list[str]:
    """Returns the folders `conf` of the extras, which hold their commands' configs."""
    return [f"pkg://outrider.extras.{extra}.conf" for extra in _extras_with("conf/__init__.py")]


def _extras_with(file: str) -> list[str]:
    """Returns the folders of `outrider.extras` that have a file."""
    extras = find_spec("outrider.extras")
    places = map(Path, (extras.submodule_search_locations or ()) if extras else ())
    return sorted(found.relative_to(it).parts[0] for it in places for found in it.glob(f"*/{file}"))


@hookimpl
def register_policies(register: Register) -> None:
    register("fixed", "outrider.contract.policy:Fixed")


@hookimpl
def register_targets(register: Register) -> None:
    register("transformers", "outrider.targets.transformers:TransformersTarget")
    register("tabular", "outrider.targets.tabular:TabularTarget")
    for name in ("smollm2", "gemma3"):
        register(name, f"outrider.targets.{name}:{name}")


@hookimpl
def register_data_sources(register: Register) -> None:
    data = "outrider.data"
    for name in ("demo", "own", "jsonl"):
        register(name, f"{data}.jsonl:{name}")
    for name in ("csv", "lines", "text"):
        register(name, f"{data}.files:{name}")
    register("parquet", f"{data}.files:parquet", extra="view")
    register("hub", f"{data}.files:hub", extra="hub")
    register("speed_bench", f"{data}.benchmarks:speed_bench")
    register("deepspec", f"{data}.benchmarks:deepspec")


@hookimpl
def register_scores(register: Register) -> None:
    register("rouge2", "outrider.data.score:Rouge2", extra="quality")


@hookimpl
def register_commands(register: RegisterCommand) -> None:
    commands, settings = "outrider.cli.commands", "outrider.cli.settings"
    compare = Command(
        "compare",
        "drafters side by side",
        f"{commands}.compare:compare",
        json=True,
        distributed=True,
        settings=f"{settings}:Compare",
        check="outrider.cli.variants:variants_of",
    )
    run, kind = f"{commands}.generate:generate", f"{settings}:Generate"
    register(Command("generate", "write a text", run, json=True, distributed=True, settings=kind))
    register(compare)
    register(replace(compare, name="demo", help="eight drafters, ready to run", distributed=False))
    run = f"{commands}.record:record"
    register(replace(compare, name="record", help="an acceptance card", run=run, distributed=False))
    run, kind = f"{commands}.check:check", f"{settings}:Check"
    register(Command("check", "prove a part lossless", run, json=True, settings=kind))
    run = f"{commands}.report:report"
    register(Command("report", "one table of several runs", run, plain=True, json=True))
    run = f"{commands}.plugins:plugins"
    register(Command("plugins", "list drafters, rules, data", run, plain=True, json=True))
    run = f"{commands}.new_plugin:new_plugin"
    register(Command("new-plugin", "write a plugin's package", run, plain=True))
