"""Every model class of transformers, tiny, in every mode, against its own greedy `generate`.

python tests/tiny/sweep.py --results sweep --write
python tests/tiny/sweep.py --only llama gemma3_text --modes tree batch --again

Each row runs in a process of its own and leaves a file of JSON lines in `--results`; what is
already there is not run again. The exit status is 1 if a text is wrong, or if an exception is not
Outrider's.
"""

import argparse
import json
import multiprocessing
import os
import sys
import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import torch
import transformers
from rich.console import Console
from rich.progress import Progress

import outrider

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("tests", "evidence")]

from tiny.models import Entry, entries
from tiny.modes import MODES
from tiny.outcomes import outcomes
from tiny.page import placed, sheet, sign, written
from tiny.subject import Subject, subject

DOCS = Path(__file__).parents[2] / "docs"
LIMIT = 1800
"""Seconds for a row; its checks have limits of their own, in the processor's time."""


def path_of(folder: Path, name: str) -> Path:
    """Returns the file of a row."""
    return folder / f"{''.join(c if c.isalnum() else '-' for c in name)}.jsonl"


def group(subject: Subject) -> str:
    """Returns what kind of model it is, in the words of the page's headings."""
    config = subject.model.config.get_text_config(decoder=True)
    kinds = set(getattr(config, "layer_types", None) or ())
    known = {"full_attention", "sliding_attention", "chunked_attention"}
    if subject.encodes:
        return "Encoder-decoders"
    if kinds - known or getattr(subject.model, "_is_stateful", False):
        return "Decoders with states or layers of other kinds"
    if kinds - {"full_attention"} or (not kinds and getattr(config, "sliding_window", None)):
        return "Decoders with windows or chunks"
    return "Decoders that see the whole text"


def run_row(entry: Entry, modes: Sequence[str], path: Path) -> None:
    """Builds a model, runs the modes, and appends the outcomes to the file."""
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    with path.open("a") as file, Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), 2)

        def note(**record: Any) -> None:
            file.write(json.dumps(record) + "\n")
            file.flush()

        try:
            built = subject(entry)
        except Exception as error:  # noqa: BLE001  whatever transformers raises is the reason
            line = " ".join(str(error).split())[:200]
            is_reason = isinstance(error, ValueError) and line.startswith("it")
            note(reason=line if is_reason else f"{type(error).__name__}: {line}")
            return
        differs = any(len(truth.texts) > 1 for truth in built.truths)
        note(class_name=entry.class_name, group=group(built), cache_differs=differs)
        for mode in modes:
            checks = [outcome.record() for outcome in outcomes(built, [mode])]
            note(mode=mode, checks=checks)


def read(path: Path) -> tuple[dict[str, Any], dict[str, list[dict[str, str]]]]:
    """Returns the facts about a row and the outcomes of its modes, the newest of each."""
    facts: dict[str, Any] = {}
    cells: dict[str, list[dict[str, str]]] = {}
    for line in path.read_text().splitlines() if path.is_file() else ():
        record = json.loads(line)
        if "mode" in record:
            cells[record["mode"]] = record["checks"]
        else:
            facts = record
    return facts, cells


def run(rows: Sequence[tuple[Entry, list[str]]], folder: Path, workers: int) -> None:
    """Runs rows in processes of their own, each with a time limit, and shows the progress."""
    waiting = list(rows)[::-1]
    running: dict[Any, tuple[Entry, float]] = {}
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("Sweeping", total=len(waiting))
        while waiting or running:
            while waiting and len(running) < workers:
                entry, modes = waiting.pop()
                arguments = (entry, modes, path_of(folder, entry.name))
                process = multiprocessing.get_context("fork").Process(
                    target=run_row, args=arguments
                )
                with warnings.catch_warnings():  # that a process with threads is forked
                    warnings.simplefilter("ignore", DeprecationWarning)
                    process.start()
                running[process] = (entry, monotonic())
                progress.update(bar, description=entry.name)
            for process, (entry, began) in list(running.items()):
                late = monotonic() - began > LIMIT
                if late:
                    process.kill()
                    process.join()
                if not process.is_alive():
                    del running[process]
                    progress.advance(bar)
                    if process.exitcode:
                        line = f"not done after {LIMIT} s" if late else "the process died"
                        died = {"mode": "plain", "check": "", "outcome": "RAW", "detail": line}
                        with path_of(folder, entry.name).open("a") as file:
                            file.write(json.dumps({"mode": "plain", "checks": [died]}) + "\n")
            sleep(0.05)


def summarised(names: Sequence[str], folder: Path, console: Console) -> bool:
    """Prints what is wrong, and returns whether anything is."""
    counts: dict[str, int] = defaultdict(int)
    bad = False
    for name in names:
        facts, cells = read(path_of(folder, name))
        counts["not built"] += bool(facts.get("reason"))
        for mode, checks in cells.items():
            counts[sign(checks)] += 1
            for check in checks:
                if check["outcome"] in ("WRONG", "RAW"):
                    bad = True
                    line = (
                        f"{check['outcome']} {name} | {mode}, {check['check']}: {check['detail']}"
                    )
                    console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(", ".join(f"{sign} {count}" for sign, count in sorted(counts.items())))
    return bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("sweep"), help="folder of the results")
    parser.add_argument("--only", nargs="*", help="these rows")
    parser.add_argument("--modes", nargs="*", default=list(MODES), choices=list(MODES))
    parser.add_argument("--again", action="store_true", help="also what has been run")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="docs/models.csv, and its counts")
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    everything = list(entries())
    unknown = set(options.only or ()) - {entry.name for entry in everything}
    if unknown:
        parser.error(f"--only {', '.join(sorted(unknown))}: no such row")
    rows = []
    for entry in everything:
        facts, cells = read(path_of(options.results, entry.name))
        modes = [mode for mode in options.modes if options.again or mode not in cells]
        done = not modes or (facts.get("reason") and not options.again)
        if not done and (not options.only or entry.name in options.only):
            rows.append((entry, modes))
    run(rows, options.results, options.workers)
    names = [entry.name for entry in everything if not options.only or entry.name in options.only]
    bad = summarised(names, options.results, Console())
    if options.write:
        results = {entry.name: read(path_of(options.results, entry.name)) for entry in everything}
        versions = f"Outrider {outrider.__version__}, transformers {transformers.__version__}"
        facts = {name: fact for name, (fact, _) in results.items()}
        cells = {name: cell for name, (_, cell) in results.items()}
        rows = sheet(facts, cells)
        (DOCS / "models.csv").write_text(written(rows))
        page = DOCS / "models.md"
        page.write_text(placed(page.read_text(), rows, versions))
    sys.exit(bad)


if __name__ == "__main__":
    main()
