"""`outrider check`: runs the conformance kit on a drafter, a rule or a policy."""

from functools import partial

from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from outrider.contract.drafter import Drafter
from outrider.contract.verifier import Verifier
from outrider.errors import ConfigError, OutriderError
from outrider.plugins.config import build
from outrider.testing import run_checks
from outrider.testing.stage import stage

ROLES = ("drafter", "verifier", "policy")


def check(config: DictConfig) -> None:
    """Prints what held, check by check; raises `OutriderError` where something did not."""
    parts = {role: config[role] for role in ROLES if config.get(role)}
    if not parts:
        raise ConfigError("nothing to check: expected drafter=NAME, verifier=NAME or policy=NAME")
    console, failed = Console(), 0
    for role, node in parts.items():
        part = build(node)
        if isinstance(part, Drafter):
            _fits(part)
        table = Table(title=f"{role} {type(part).__name__}", caption=_caption(part))
        for column in ("check", "held", "seconds", "what it says, or what went wrong"):
            table.add_column(column)
        with console.status(f"Checking {role} {type(part).__name__}") as status:
            for outcome in run_checks(partial(build, node)):
                status.update(f"Checked {outcome.check}")
                failed += outcome.fault is not None
                table.add_row(
                    outcome.check.replace("_", " "),
                    "[red]NO[/]" if outcome.fault else "[green]yes[/]",
                    f"{outcome.seconds:.2f}",
                    outcome.fault or outcome.says,
                )
        console.print(table)
    if failed:
        raise OutriderError(f"{failed} checks failed")


def _fits(drafter: Drafter) -> None:
    try:
        stage(drafter)
    except ConfigError as error:
        raise ConfigError(
            f"{error}; checks have a tiny target of their own: trained networks take path=untrained"
        ) from error


def _caption(part: object) -> str | None:
    if not isinstance(part, Verifier) or part.lossless:
        return None
    return (
        "LOSSY: this rule is held to the ceiling that it states, not to the target's distribution"
    )
