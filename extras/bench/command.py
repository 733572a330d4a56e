"""`outrider bench`: Outrider and its peers on the same prompts, interleaved in one run."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from rich.progress import Progress

from outrider.base.errors import require
from outrider.base.folders import append_line, claimed, write_whole
from outrider.base.interruption import advising
from outrider.base.terminal import plain, print_json, remark, results, visible
from outrider.base.waiting import bars
from outrider.cli.reports import chosen_reports, following
from outrider.cli.variants import variants_of
from outrider.data.prompts import without_tools
from outrider.extras.bench.entrants import OUTRIDER_PLAIN, Entrant, entrants
from outrider.extras.bench.measure import Run, differences, measure_runs, speeds_by_batch
from outrider.extras.bench.report import bench_lines, bench_table, figures_of, logged
from outrider.extras.bench.settings import Bench
from outrider.extras.bench.worker import Worker
from outrider.lab.runs.report import Report
from outrider.plugins.config import build
from outrider.plugins.reading import plain_settings, plain_values
from outrider.targets.weights_location import weights_location

RUNS = "runs.jsonl"
"""The file of a bench's runs, in its folder."""


def bench(config: Bench) -> None:
    """Prints the table; each run and the curves are saved in Hydra's run dir."""
    folder = Path(HydraConfig.get().runtime.output_dir)
    is_new = not (folder / RUNS).exists()
    require(is_new, "hydra.run.dir", str(folder), f"a folder without the {RUNS} of another bench")
    reports = chosen_reports(config.reports)
    settings = plain_settings(config)
    listed, _ = variants_of(config)  # a rule that takes no such drafts is refused at once
    settings["drafters"] = plain_values(listed)
    prompts = without_tools(build(config.data))  # before engines are started, which takes minutes
    require(len(prompts) > 0, "data", 0, "at least one prompt")
    with (
        claimed(folder),
        advising(lambda: _advice(folder)),
        following(reports, folder, settings),
        ExitStack() as stack,
        bars() as progress,
    ):
        peers = [peer for peer, setting in settings["peers"].items() if setting]
        # llama.cpp reads the target's GGUF file itself.
        location = "" if peers == ["llama_cpp"] else weights_location(settings)
        participants = entrants(settings, location, settings["drafters"])
        workers = _start_workers(participants, folder, stack, progress)
        reference = workers[OUTRIDER_PLAIN]
        for line in reference.said.splitlines():
            remark(line)
        texts = [
            reference.ask({"ask": "encode", "turns": list(prompt.turns[: config.turns])})["ids"]
            for prompt in prompts
        ]
        runs = _measure_runs(config, workers, texts, folder, progress, reports=reports)
        differing = None if config.sampling.temperature else differences(runs, texts, reference)
        facts = figures_of(
            runs,
            workers,
            [(it.name, rival) for it in participants for rival in it.rivals if rival in workers],
        )
        drafting = {run.entrant for run in runs if run.drafts}
        facts |= {
            "target_itself": [
                name
                for name, worker in workers.items()
                if name in drafting and worker.ask({"ask": "is_target"})["is_target"]
            ],
            "start_seconds": {name: worker.start_seconds for name, worker in workers.items()},
            "peak_bytes": {name: worker.peak for name, worker in workers.items()},
            "differences": [{"entrant": name, **asdict(it)} for name, it in differing or ()],
        }
        together = {part.name: workers[part.name] for part in participants if part.writes_together}
        for name, worker in workers.items():
            if worker is not reference and name not in together:
                worker.close()  # large batches need the memory
        task = progress.add_task("curves", total=len(config.batches))
        writers = {"": reference, **together}
        step = partial(progress.advance, task)
        facts["curves"] = speeds_by_batch(writers, texts, settings, step)
        reports.log(logged(facts), len(runs))
    path = folder / "bench.json"
    content = json.dumps({"settings": settings, **facts}, indent=1, default=asdict) + "\n"
    write_whole(path, content)
    print_json(content)
    console = results()
    console.print(bench_table(facts, runs, f"{len(prompts)} prompts, gamma {config.gamma}"))
    for line in bench_lines(facts, runs, differing):
        console.print(plain(line))
    remark(path, stderr=False)


def _start_workers(
    participants: Sequence[Entrant], folder: Path, stack: ExitStack, progress: Progress
) -> dict[str, Worker]:
    """Starts a worker for each entrant; `stack` closes them."""
    task = progress.add_task("starting", total=len(participants))
    workers: dict[str, Worker] = {}
    for entrant in participants:
        progress.update(task, description=visible(f"starting {entrant.name}"))
        log = folder / f"{entrant.name.replace(' ', '_')}.log"
        worker = Worker(entrant.name, entrant.command, entrant.settings, log, entrant.environment)
        stack.callback(worker.close)
        workers[entrant.name] = worker
        progress.advance(task)
    return workers


def _measure_runs(
    config: Bench,
    workers: Mapping[str, Worker],
    prompts: Sequence[list[int]],
    folder: Path,
    progress: Progress,
    *,
    reports: Report,
) -> list[Run]:
    """Returns all runs, each of which is saved in `runs.jsonl` as soon as it is done."""
    task = progress.add_task("writing", total=len(workers) * len(prompts) * config.repeats)
    runs: list[Run] = []
    for run in measure_runs(workers, prompts, config.repeats, config.max_new_tokens):
        append_line(folder / RUNS, json.dumps(asdict(run)))
        runs.append(run)
        speed = len(run.tokens) / run.seconds
        reports.log({f"{run.entrant}/text/tokens_per_second": speed}, len(runs))
        progress.advance(task)
    return runs


def _advice(folder: Path) -> str | None:
    """Returns what an interrupted bench has left."""
    if not (folder / RUNS).is_file():
        return None
    count = (folder / RUNS).read_text(encoding="utf-8").count("\n")
    return (
        f"{count} runs are in {folder / RUNS}; the same command measures all of them again, since"
        " only speeds of one session can be compared"
    )
