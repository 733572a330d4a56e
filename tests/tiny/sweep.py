"""Every model class of transformers, tiny, in every mode, against its own greedy `generate`.

python tests/tiny/sweep.py --results sweep --write
python tests/tiny/sweep.py --only llama gemma3_text --modes tree batch --again

Each row runs in a process of its own and leaves a file in `--results`; what is already there is not
run again. The exit status is 1 if a text is wrong, or if an exception is not Outrider's.
"""

import argparse
import json
import multiprocessing
import os
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import torch
import transformers
from rich.console import Console
from rich.progress import track

import outrider

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("tests", "evidence")]

from tiny.models import ENTRIES, Entry
from tiny.modes import MODES
from tiny.outcomes import outcomes, word
from tiny.page import placed, sheet, written
from tiny.subject import Subject, subject

DOCS = Path(__file__).parents[2] / "docs"
LIMIT = 1800
"""Seconds for a row; its checks have limits of their own, in the processor's time."""


def path_of(folder: Path, name: str) -> Path:
    """Returns the file of a row."""
    return folder / f"{''.join(c if c.isalnum() else '-' for c in name)}.json"


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Returns the facts about a row, and by mode the outcomes of its checks."""
    nothing: dict[str, dict[str, Any]] = {"facts": {}, "cells": {}}
    return json.loads(path.read_text()) if path.is_file() else nothing


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
    """Builds a model, runs the modes, and keeps the outcomes of each in the file."""
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    found = read(path)
    try:
        built = subject(entry)
        differs = any(len(truth.texts) > 1 for truth in built.truths)
        found["facts"] = {"group": group(built), "cache_differs": differs}
    except Exception as error:  # noqa: BLE001  whatever transformers raises is the reason
        line = " ".join(str(error).split())[:200]
        is_reason = isinstance(error, ValueError) and line.startswith("it")
        found["facts"], modes = (
            {"reason": line if is_reason else f"{type(error).__name__}: {line}"},
            (),
        )
    path.write_text(json.dumps(found))
    for mode in modes:
        found["cells"][mode] = outcomes(built, mode)
        path.write_text(json.dumps(found))


def run_apart(folder: Path, row: tuple[Entry, list[str]]) -> None:
    """Runs a row in a process of its own with a time limit, and notes in its file if it died."""
    path = path_of(folder, row[0].name)
    process = multiprocessing.get_context("fork").Process(target=run_row, args=(*row, path))
    with warnings.catch_warnings():  # that a process with threads is forked
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    process.join(LIMIT)
    line = f"not done after {LIMIT} s" if process.is_alive() else "the process died"
    process.kill()
    process.join()
    if process.exitcode:
        found = read(path)
        found["cells"]["plain"] = [{"check": "", "outcome": "error", "detail": line}]
        path.write_text(json.dumps(found))


def summarised(results: dict[str, dict[str, Any]], console: Console) -> bool:
    """Prints what is wrong, and returns whether anything is."""
    counts, bad = Counter[str](), False
    for name, found in results.items():
        counts["not built"] += bool(found["facts"].get("reason"))
        for mode, checks in found["cells"].items():
            counts[word(checks)] += 1
            for check in checks:
                if check["outcome"] in ("wrong", "error"):
                    bad = True
                    line = f"{name} | {mode}, {check['check']}: {check['detail']}"
                    console.print(check["outcome"], line, markup=False, soft_wrap=True)
    console.print(", ".join(f"{word} {count}" for word, count in sorted(counts.items())))
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
    if unknown := set(options.only or ()) - ENTRIES.keys():
        parser.error(f"--only {', '.join(sorted(unknown))}: no such row")
    names = options.only or [*ENTRIES]
    rows = []
    for name in names:
        found = read(path_of(options.results, name))
        done = set() if options.again else found["cells"].keys()
        modes = [mode for mode in options.modes if mode not in done]
        if modes and (options.again or not found["facts"].get("reason")):
            rows.append((ENTRIES[name], modes))
    with ThreadPool(options.workers) as pool:
        running = pool.imap_unordered(partial(run_apart, options.results), rows)
        for _ in track(running, "Sweeping", len(rows), console=Console(stderr=True)):
            pass
    results = {name: read(path_of(options.results, name)) for name in ENTRIES}
    bad = summarised({name: results[name] for name in names}, Console())
    if options.write:
        versions = f"Outrider {outrider.__version__}, transformers {transformers.__version__}"
        sheet_rows, page = sheet(results), DOCS / "models.md"
        (DOCS / "models.csv").write_text(written(sheet_rows))
        page.write_text(placed(page.read_text(), sheet_rows, versions))
    sys.exit(bad)


if __name__ == "__main__":
    main()
