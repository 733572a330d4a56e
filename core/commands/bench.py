"""`outrider bench`: Outrider and its peers on the same prompts, interleaved in one run."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from outrider.bench.entrants import PLAIN, entrants, local
from outrider.bench.measure import TIE, Difference, Run, differences, measured, ratio, speed
from outrider.bench.plots import plots
from outrider.bench.roofline import bandwidth
from outrider.bench.worker import Worker
from outrider.errors import is_int, require
from outrider.lab.intervals import Interval
from outrider.plugins.config import build, plain

Curve = tuple[list[int], list[float]]


def bench(config: DictConfig) -> None:
    """Prints the table; the run's folder holds each run, the curves and their plots."""
    for name in ("repeats", "turns"):
        good = is_int(config[name]) and config[name] >= 1
        require(good, name, config[name], "a whole number of at least 1")
    greedy = config.sampling.temperature == 0
    require(greedy, "sampling.temperature", config.sampling.temperature, "0: texts are compared")
    folder = Path(HydraConfig.get().runtime.output_dir)
    settings = plain(config)
    memory = bandwidth()
    shown = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with ExitStack() as stack, Progress(*columns, TimeRemainingColumn(), console=shown) as bar:
        model = local(settings)
        everyone = entrants(settings, model, _dtype(config))
        starting = bar.add_task("starting", total=len(everyone))
        workers: dict[str, Worker] = {}
        for each in everyone:
            bar.update(starting, description=f"starting {each.name}")
            log = folder / f"{each.name.replace(' ', '_')}.log"
            worker = Worker(each.name, each.command, each.given, log, each.environment)
            stack.callback(worker.close)
            workers[each.name] = worker
            bar.advance(starting)
        ours = workers[PLAIN]
        asked = [
            {"ask": "encode", "turns": list(p.turns[: config.turns])} for p in build(config.data)
        ]
        prompts = [ours.ask(each)["ids"] for each in asked]
        require(len(prompts) > 0, "data", 0, "at least one prompt")
        work = bar.add_task("writing", total=len(workers) * len(prompts) * config.repeats)
        runs: list[Run] = []
        try:
            for run in measured(workers, prompts, config.repeats, config.max_new_tokens):
                runs.append(run)
                bar.advance(work)
        finally:  # a run that breaks off leaves what it had
            lines = [json.dumps(asdict(run)) + "\n" for run in runs]
            (folder / "runs.jsonl").write_text("".join(lines))
        odd = differences(runs, prompts, ours)
        peaks = {name: worker.peak for name, worker in workers.items()}
        curves = _curves(ours, prompts, settings, bar)
        weights = int(ours.ask({"ask": "weights"})["bytes"])
    beside = {each.name: [o for o in each.beside if o in workers] for each in everyone}
    ratios = {
        (name, other): ratio(runs, name, other)
        for name, others in beside.items()
        for other in others
    }
    starts = {name: worker.start_seconds for name, worker in workers.items()}
    speeds = {name: speed(runs, name) for name in workers}
    facts = {
        "settings": settings,
        "tokens_per_second": speeds,
        "ratios": [[*pair, asdict(each) if each else None] for pair, each in ratios.items()],
        "phases": {name: _phases(runs, name) for name in workers},
        "start_seconds": starts,
        "peak_bytes": peaks,
        "differences": [asdict(each) for each in odd],
        "curves": curves,
        "roofline": {
            "bytes": weights,
            "bytes_per_second": memory,
            "tokens_per_second": memory / weights,
        },
    }
    (folder / "bench.json").write_text(json.dumps(facts, indent=1) + "\n")
    console = Console()
    console.print(
        _table(runs, speeds, starts, peaks, f"{len(prompts)} prompts, gamma {config.gamma}")
    )
    for (name, other), found in ratios.items():
        console.print(f"{name} is {_shown(found)} times as fast as {other}", highlight=False)
    console.print(_agreement(odd, runs), highlight=False)
    console.print(
        f"roofline: {memory / 1e9:.1f} GB/s over {weights / 1e6:.0f} MB of weights is"
        f" {memory / weights:.1f} tokens/s without drafts",
        highlight=False,
    )
    for name, (xs, ys) in curves.items():
        line = ", ".join(f"{x}: {y:.1f}" for x, y in zip(xs, ys, strict=True))
        console.print(f"{name}: {line}", highlight=False)
    for place in [folder / "bench.json", *plots(curves, folder)]:
        console.print(str(place), soft_wrap=True)


def _dtype(config: DictConfig) -> Any:
    import torch

    asked = config.target.get("dtype", "auto")
    return torch.float32 if asked == "auto" else getattr(torch, asked)


def _curves(
    ours: Worker, prompts: Sequence[list[int]], settings: Mapping[str, Any], bar: Progress
) -> dict[str, Curve]:
    """Returns milliseconds by rows and by context, and tokens a second by batch.

    The latter once for decoding alone, and once with the reading of the prompts.
    """
    total = 1 + len(settings["batches"]) + len(settings["contexts"])
    work = bar.add_task("curves", total=total)
    rows = list(settings["rows"])
    times = ours.ask({"ask": "rows", "rows": rows, "context": 256, "repeats": 15})["times"]
    curves: dict[str, Curve] = {"rows": (rows, [1000 * each for each in times])}
    bar.advance(work)
    speeds: dict[str, list[float]] = {"decoding": [], "whole": []}
    texts = [prompts[number % len(prompts)] for number in range(max(settings["batches"]))]
    for count in settings["batches"]:  # the same texts, so many at once
        asked = {"ask": "texts", "prompts": texts, "batch": count}
        said = ours.ask(asked | {"max_new_tokens": settings["max_new_tokens"]})
        for name, found in speeds.items():
            found.append(said[name])
        bar.advance(work)
    curves["batches"] = (list(settings["batches"]), speeds["decoding"])
    curves["batches with prompts"] = (list(settings["batches"]), speeds["whole"])
    by_context = []
    for context in settings["contexts"]:
        asked = {"ask": "rows", "rows": [settings["gamma"] + 1], "context": context, "repeats": 9}
        by_context.append(1000 * ours.ask(asked)["times"][0])
        bar.advance(work)
    curves["contexts"] = (list(settings["contexts"]), by_context)
    return curves


def _phases(runs: Sequence[Run], name: str) -> dict[str, float]:
    """Returns the seconds of each phase, and what the loop spends besides, over all runs."""
    mine = [run for run in runs if run.entrant == name and run.phases]
    if not mine:
        return {}
    phases = {each: sum(run.phases[each] for run in mine) for each in mine[0].phases}
    total = sum(run.seconds for run in mine)
    return phases | {"rest": total - sum(phases.values()), "total": total}


def _table(
    runs: Sequence[Run],
    speeds: Mapping[str, float],
    starts: Mapping[str, float],
    peaks: Mapping[str, int],
    title: str,
) -> Table:
    table = Table(title=title)
    table.add_column("")
    for column in ("tokens/s", "tokens a call", "draft", "score", "verify", "start s", "peak MB"):
        table.add_column(column, justify="right")
    for name, tokens in speeds.items():
        phases = _phases(runs, name)
        calls = [run for run in runs if run.entrant == name and run.calls]
        each = (
            sum(len(run.tokens) for run in calls) / sum(run.calls or 0 for run in calls)
            if calls
            else 0
        )
        shares = [
            f"{phases[phase] / phases['total']:.1%}" if phases else "-"
            for phase in ("draft", "score", "verify")
        ]
        table.add_row(
            name,
            f"{tokens:.1f}",
            f"{each:.2f}" if each else "-",
            *shares,
            f"{starts[name]:.1f}",
            f"{peaks[name] / 1e6:.0f}",
        )
    return table


def _agreement(odd: Sequence[Difference], runs: Sequence[Run]) -> str:
    texts = len({(run.prompt, run.entrant) for run in runs})
    if not odd:
        return f"all {texts} texts agree"
    ties = [each for each in odd if each.gap is not None and each.gap < TIE]
    rest = "".join(
        f"\n  {each.entrant}, prompt {each.prompt}, token {each.place}: "
        + ("one text ends" if each.gap is None else f"logits {each.gap:.2g} apart")
        for each in odd
        if each not in ties
    )
    return f"of {texts} texts {len(odd)} differ, {len(ties)} of them at ties of float32{rest}"


def _shown(each: Interval | None) -> str:
    if each is None:
        return "nan"
    ends = "" if each.low is None else f" [{each.low:.2f}, {each.high:.2f}]"
    return f"{each.value:.2f}{ends}"
