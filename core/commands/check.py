"""`outrider check`: runs the conformance kit on a drafter, an acceptance rule or a policy."""

from functools import partial

from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from outrider.contract.drafter import Drafter
from outrider.contract.verifier import Verifier
from outrider.errors import ConfigError, OutriderError
from outrider.plugins.config import build
from outrider.terminal import plain
from outrider.testing import run_checks
from outrider.testing.stage import stage

ROLES = ("drafter", "verifier", "policy")


def check(config: DictConfig) -> None:
    """Prints the result of each check.

    Raises:
        OutriderError: a check failed.
    """
    configs = {role: config[role] for role in ROLES if config.get(role)}
    if not configs:
        raise ConfigError("nothing to check: expected drafter=NAME, verifier=NAME or policy=NAME")
    console, failed = Console(), 0
    for role, node in configs.items():
        part = build(node)
        if isinstance(part, Drafter):
            _check_fit(part)
        table = Table(title=f"{role} {type(part).__name__}", caption=_caption(part))
        for heading in ("check", "held", "seconds", "what it says, or what went wrong"):
            table.add_column(heading)
        with console.status(f"Checking {role} {type(part).__name__}") as status:
            for outcome in run_checks(partial(build, node)):
                status.update(f"Checked {outcome.check}")
                failed += outcome.fault is not None
                table.add_row(
                    outcome.check.replace("_", " "),
                    "[red]NO[/]" if outcome.fault else "[green]yes[/]",
                    f"{outcome.seconds:.2f}",
                    plain(outcome.fault or outcome.says),
                )
        console.print(table)
    if failed:
        raise OutriderError(f"{failed} checks failed")


def _check_fit(drafter: Drafter) -> None:
    """Raises `ConfigError` if the drafter can't work with the kit's tiny target."""
    try:
        stage(drafter)
    except ConfigError as error:
        raise ConfigError(
            f"{error}; checks run on a tiny target of their own: for trained networks set"
            " path=untrained"
        ) from error


def _caption(part: object) -> str | None:
    if not isinstance(part, Verifier) or part.lossless:
        return None
    return "LOSSY: checked against the bound that the rule states, not the target's distribution"
