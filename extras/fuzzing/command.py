"""`outrider fuzz`: runs random combinations of parts and settings until one breaks a promise."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from outrider.base.errors import OutriderError, described, require
from outrider.base.folders import claimed, write_whole
from outrider.base.terminal import plain, print_json, remarks, results
from outrider.extras.fuzzing.attempt import Attempt
from outrider.extras.fuzzing.command_settings import Fuzz
from outrider.extras.fuzzing.example import Example
from outrider.extras.fuzzing.run import run_example
from outrider.extras.fuzzing.tally import Tally
from outrider.lab.runs.identity import LIBRARIES, provenance
from outrider.plugins.fingerprint import code_version
from outrider.plugins.registry import installed

TARGETS: dict[str, tuple[str, ...]] = {
    "tables": ("tables",),
    "transformers": ("transformers",),
    "both": ("tables", "transformers"),
    "objects": ("objects",),
    "tokenizers": ("tokenizers",),
    "templates": ("templates",),
    "configs": ("configs",),
    "wrong": ("objects", "tokenizers", "templates", "configs"),
}
"""By setting, the groups of targets, or the kinds of attempts."""


def fuzz(settings: Fuzz) -> None:
    """Runs examples, prints what was checked, and writes `fuzz.json` in Hydra's run dir.

    Raises:
        ConfigError: a setting has a value that it can't have.
        OutriderError: an example failed; the line above it is the command that repeats it.
    """
    console = results(soft_wrap=True)
    if settings.example is not None:
        is_attempt = isinstance(settings.example, Mapping) and "kind" in settings.example
        given = settings.example
        _run_one(Attempt.of(given) if is_attempt else Example.of(given), console)
        return
    is_limited = settings.seconds is not None or settings.runs is not None
    require(is_limited, "seconds", None, "a number, or one for runs=")
    for name in settings.drafters:
        installed().find("drafter", name)
    path, tally = Path(HydraConfig.get().runtime.output_dir) / "fuzz.json", Tally()
    with claimed(path.parent):
        try:
            _run_groups(settings, tally)
        finally:  # an interrupted run reports what it did
            overrides = list(HydraConfig.get().overrides.task)
            content = json.dumps(_report(settings, tally, overrides), indent=1) + "\n"
            write_whole(path, content)
            console.print(_table(tally))
            print_json(content)
            remarks(stderr=False).print(plain(path), soft_wrap=True)
    if tally.failure is not None:
        example, reason = tally.failure
        console.print(plain(example.command()))
        raise OutriderError(f"{reason}; the command above repeats it")


def _run_one(example: Example | Attempt, console: Console) -> None:
    try:
        outcome = run_example(example)
    except Exception as error:
        raise OutriderError(described(error)) from error
    print_json({"refused": outcome.refused, "kept": list(outcome.kinds)})
    if outcome.refused is not None:
        console.print(plain(f"refused: {outcome.refused}"))
    else:
        console.print(f"every promise was kept ({', '.join(outcome.kinds)})")


def _run_groups(settings: Fuzz, tally: Tally) -> None:
    """Runs the examples of each group of targets, until one fails."""
    from outrider.extras.fuzzing.campaign import run_campaign

    groups = TARGETS[settings.targets]
    seconds, runs = settings.seconds, settings.runs
    with _progress(tally) as show:
        for number, group in enumerate(groups):
            if tally.failure is None:
                run_campaign(
                    group,
                    tally,
                    seed=settings.seed,
                    seconds=None if seconds is None else seconds / len(groups),
                    runs=None if runs is None else (runs + number) // len(groups),
                    drafters=settings.drafters,
                    progress=show,
                )


@contextmanager
def _progress(tally: Tally) -> Iterator[Callable[[], None]]:
    """Shows how many examples were run; yields the function to call after each."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=remarks()) as progress:
        task = progress.add_task("Drawing examples", total=None)

        def show() -> None:
            refused = sum(tally.refused.values())
            progress.update(
                task, description=f"{tally.runs} runs, {tally.texts} texts, {refused} refused"
            )

        yield show


def _table(tally: Tally) -> Table:
    table = Table(title=f"{tally.runs} runs in {tally.seconds:.0f} s")
    table.add_column("")
    table.add_column("runs", justify="right")
    for name, count in sorted(tally.targets.items()):
        table.add_row(name, str(count))
    table.add_section()
    for name, count in sorted(tally.kinds.items()):
        table.add_row(name, str(count))
    table.add_row("refused", str(sum(tally.refused.values())))
    table.add_row("failed", "0" if tally.failure is None else "[red]1[/]")
    return table


def _report(settings: Fuzz, tally: Tally, overrides: Sequence[str]) -> dict[str, Any]:
    """Returns what `fuzz.json` holds."""
    failure = None
    if tally.failure is not None:
        example, reason = tally.failure
        failure = {"reason": reason, "command": example.command(), "example": example.plain()}
    return {
        **{name: getattr(settings, name) for name in ("seed", "targets", "drafters")},
        "runs": tally.runs,
        "texts": tally.texts,
        "seconds": round(tally.seconds, 3),
        "by_target": dict(tally.targets),
        "by_kind": dict(tally.kinds),
        "refused": dict(tally.refused.most_common()),
        "failure": failure,
        "outrider": code_version("outrider"),
        "versions": {name: version(name) for name in (*LIBRARIES, "hypothesis")},
        "start": provenance("fuzz", overrides),
    }
