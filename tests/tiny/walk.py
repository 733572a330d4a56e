"""Runs steps one after another in one process, with the packages that it is started with.

python walk.py STEPS [FOLDER]: the first is JSON of lists of kind, text and words; the second holds
SmolLM2 of few layers. Form feeds are around how each step ended, behind what it printed.
"""

import importlib
import json
import os
import subprocess
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from outrider.cli import main as cli
from outrider.cli.commands import check
from outrider.drafters.parts.networks import weights
from outrider.plugins.registry import command_entry, installed
from outrider.targets import smollm2

SHALLOW = 4
"""The layers of SmolLM2 in the folder."""

INSTALL = """
import os, sys, zipfile
from setuptools.build_meta import build_wheel
folder, place = sys.argv[1:]
os.mkdir(folder)
os.chdir(place)
zipfile.ZipFile(os.path.join(folder, build_wheel(folder))).extractall(folder)
"""


def main(steps: str, few_layers: str = "") -> None:
    sys.stderr = sys.stdout
    if few_layers:
        smollm2.folder = lambda: Path(few_layers)
        weights.SMOLLM2_135M["num_hidden_layers"] = SHALLOW
    run_checks = check.run_checks  # a part passes all of them in tests of its own
    check.run_checks = lambda make, thorough: islice(run_checks(make, thorough), 2)
    with suppress(ModuleNotFoundError):
        _draw_once(importlib.import_module("outrider.extras.view.figures"))
    names: dict[str, Any] = {}
    for kind, text, words in json.loads(steps):
        try:
            status = _run(kind, text, words, names)
        except SystemExit as stop:
            status = stop.code
        print("\f", status, "\f", sep="", end="", flush=True)


def _draw_once(figures: Any) -> None:
    """Draws each kind of figure once: the others only have other numbers."""
    pictures, inner = {}, figures.drawn

    def drawn(plot: Any, rows: Any) -> Any:
        kind = getattr(plot, "func", plot), getattr(plot, "keywords", {}).get("rate"), len(rows) > 1
        if kind not in pictures:
            pictures[kind] = inner(plot, rows=rows)
        return pictures[kind]

    figures.drawn = drawn


def _run(kind: str, text: str, words: list[str], names: dict[str, Any]) -> Any:
    """Runs a step and returns its status."""
    if kind == "python":
        exec(compile(text, "page", "exec"), names)
    elif kind == "named":  # not run here, but it could be
        command_entry(words[1]).check_extra()
    elif kind == "folder":
        os.makedirs(text)
        os.chdir(text)
        names.clear()
    elif words[0] == "outrider":
        installed.cache_clear()  # each command is a process of its own
        sys.argv = words
        cli.main()
    elif words[0] == "pip":  # what it installed has its tests run in tests/test_packaging.py
        installed_at, place = os.path.abspath("installed"), words[-1].partition("[")[0]
        subprocess.run([sys.executable, "-c", INSTALL, installed_at, place], check=True)
        sys.path.append(installed_at)
    return 0


if __name__ == "__main__":
    main(*sys.argv[1:])
