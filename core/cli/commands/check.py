"""`outrider check`: runs the conformance kit on a drafter, a rule, or any other part."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from functools import partial
from itertools import repeat
from typing import Any

from hydra.core.hydra_config import HydraConfig
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from outrider.base.errors import ConfigError, OutriderError
from outrider.base.terminal import plain, print_json, remark, remarks, results, visible
from outrider.cli.settings import Check
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Policy
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.plugins.config import build
from outrider.plugins.fingerprint import code_version
from outrider.plugins.parts import factory_of
from outrider.targets.transformers import TransformersTarget
from outrider.testing import Outcome, checks_of, run_checks
from outrider.testing.tiny_targets import bound_target

ROLES = tuple(field.name for field in fields(Check) if field.name != "thorough")
"""The roles that the kit has checks of."""


def check(settings: Check) -> None:
    """Prints the result of each check, and the verdict.

    Raises `OutriderError` if a check failed.
    """
    chosen = {role: getattr(settings, role) for role in ROLES}
    configs = {role: node for role, node in chosen.items() if node is not None}
    if not configs:
        raise ConfigError(
            f"nothing to check: expected {'=NAME, '.join(ROLES[:-1])}=NAME or {ROLES[-1]}=NAME"
        )
    console, faults = results(), dict[str, list[str]]()
    version, outcomes = code_version("outrider"), dict[str, dict[str, Any]]()
    for role, node in configs.items():
        part = build(node)
        make: Callable[[], Any] = partial(build, node)
        if isinstance(part, Drafter):
            _check_fit(part)
        if isinstance(part, Target):
            make = repeat(part).__next__  # a model is loaded once
        if isinstance(part, TransformersTarget):
            _print_self_test(part, console)
        made = factory_of(node).__name__ if isinstance(part, list) else type(part).__name__
        name = HydraConfig.get().runtime.choices.get(role) or made
        done: list[Outcome] = []
        waiting = [each.__name__ for each in checks_of(make, settings.thorough)]
        with remarks().status(waiting[0]) as status:
            for outcome in run_checks(make, settings.thorough):
                done.append(outcome)
                status.update(" ".join(waiting[len(done) : len(done) + 1]))
        checks = [asdict(outcome) for outcome in done]
        outcomes[role] = {"part": made, "outrider": version, "checks": checks}
        faults[name] = [_words(outcome) for outcome in done if outcome.fault]
        console.print(_table(f"{role} {name}", done))
        if not faults[name]:
            console.print(plain(_verdict(name, part, done)))
    remark(f"The checks are those of {' '.join(version.values())}.", stderr=False)
    print_json(outcomes)
    if lines := [f"{name}: {len(own)} checks failed" for name, own in faults.items() if own]:
        raise OutriderError("; ".join(lines))


def _table(title: str, outcomes: Sequence[Outcome]) -> Table:
    """Returns a line for each check, those that failed first; what was wrong stands below."""
    table = Table(title=title, title_justify="left", box=None, show_header=False)
    for outcome in sorted(outcomes, key=lambda one: (not one.fault, not one.refused)):
        words, why = plain(_words(outcome)), outcome.fault or outcome.refused
        if why is not None:
            words.append(f"\n{visible(why)}", style="dim")
        table.add_row(_held(outcome), words, f"{outcome.seconds:.2f} s")
    return table


def _words(outcome: Outcome) -> str:
    return outcome.check.replace("_", " ")


def _verdict(name: str, part: object, outcomes: Sequence[Outcome]) -> str:
    """Returns what a part without a fault has been shown to be."""
    passed = sum(not outcome.refused for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    what = f"{name} keeps its contract"
    if isinstance(part, Drafter | Policy | Verifier):
        what = f"{name} is lossless"
    if isinstance(part, Verifier) and not part.lossless:
        what = f"{name} is LOSSY, and keeps the bound that it states"
    end = f"; {len(outcomes) - passed} refused" if passed < len(outcomes) else ""
    return f"{what}: {passed} of {passed} checks passed ({seconds:.0f} s){end}."


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
    title = f"self-test of {type(target.model).__name__}"
    table = Table("property", "result", "reason", title=title)
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
