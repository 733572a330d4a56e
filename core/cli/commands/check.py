"""`outrider check`: runs the conformance kit on a drafter, a rule, or any other part."""

from collections.abc import Callable
from dataclasses import asdict, fields
from functools import partial
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from outrider.base.errors import ConfigError, OutriderError
from outrider.base.terminal import plain, print_json, remarks, results
from outrider.cli.settings import Check
from outrider.contract.drafter import Drafter
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.plugins.config import build, factory_of
from outrider.plugins.fingerprint import code_version
from outrider.targets.transformers import TransformersTarget
from outrider.testing import Outcome, run_checks
from outrider.testing.tiny_targets import bound_target

ROLES = tuple(field.name for field in fields(Check) if field.name != "thorough")
"""The roles that the kit has checks of."""


def check(settings: Check) -> None:
    """Prints the result of each check.

    Raises:
        OutriderError: a check failed.
    """
    chosen = {role: getattr(settings, role) for role in ROLES}
    configs = {role: node for role, node in chosen.items() if node is not None}
    if not configs:
        raise ConfigError(
            f"nothing to check: expected {'=NAME, '.join(ROLES[:-1])}=NAME or {ROLES[-1]}=NAME"
        )
    console, failed = results(), 0
    version = code_version("outrider")
    console.print(f"The checks are those of {' '.join(version.values())}.")
    outcomes: dict[str, dict[str, Any]] = {}
    for role, node in configs.items():
        part = build(node)
        make: Callable[[], Any] = partial(build, node)
        if isinstance(part, Drafter):
            _check_fit(part)
        if isinstance(part, Target):
            make = partial(_same, part)  # a model is loaded once
        if isinstance(part, TransformersTarget):
            _print_self_test(part, console)
        name = factory_of(node).__name__ if isinstance(part, list) else type(part).__name__
        table = Table(title=f"{role} {name}", caption=_caption(part))
        for heading in ("check", "held", "seconds", "what it says, or what went wrong"):
            table.add_column(heading)
        with remarks().status(f"Checking {role} {name}") as status:
            outcomes[role] = {"part": name, "outrider": version, "checks": []}
            for outcome in run_checks(make, settings.thorough):
                outcomes[role]["checks"].append(asdict(outcome))
                status.update(f"Checked {outcome.check}")
                failed += outcome.fault is not None
                table.add_row(
                    outcome.check.replace("_", " "),
                    _held(outcome),
                    f"{outcome.seconds:.2f}",
                    plain(outcome.fault or outcome.refused or outcome.says),
                )
        console.print(table)
    print_json(outcomes)
    if failed:
        raise OutriderError(f"{failed} checks failed")


def _same(part: Target) -> Target:
    return part


def _held(outcome: Outcome) -> str:
    if outcome.fault:
        return "[red]NO[/]"
    return "[yellow]refused[/]" if outcome.refused else "[green]yes[/]"


def _print_self_test(target: TransformersTarget, console: Console) -> None:
    """Runs a target's self-test, and prints what holds, and what is refused and why."""
    with remarks().status("Running the self-test"):
        tested = target.test_again()
    if tested is None:
        console.print("Compiled passes have no self-test; the checks test them.")
        return
    table = Table(title=f"self-test of {type(target.model).__name__}")
    for heading in ("property", "result", "reason"):
        table.add_column(heading)
    for name, reason in tested.properties().items():
        result = "[yellow]refused[/]" if reason else "[green]holds[/]"
        table.add_row(name, result, escape(reason))
    console.print(table)


def _check_fit(drafter: Drafter) -> None:
    """Raises `ConfigError` if the drafter can't work with the kit's tiny target."""
    try:
        bound_target(drafter)
    except ConfigError as error:
        raise ConfigError(
            f"{error}; checks run on a tiny target of their own: for trained networks set"
            " path=untrained (pard: model=untrained, small_lm: no model), in a drafter of drafters"
            " as {drafter: NAME, path: untrained}"
        ) from error


def _caption(part: object) -> str | None:
    if not isinstance(part, Verifier) or part.lossless:
        return None
    return "LOSSY: checked against the bound that the rule states, not the target's distribution"
