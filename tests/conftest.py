"""What all tests have in common: their fixtures, and which of them begin first."""

import gc
import os
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Loads the fixtures, and PyTorch with them, but not where xdist only hands out the tests."""
    gc.disable()  # while modules are imported, of which nothing is garbage
    if config.getoption("dist", "no") == "no":
        for name in ("tiny.fixtures", "tiny.commands", "tiny.packages"):
            config.pluginmanager.import_plugin(name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts first what takes long or waits for processes: at the end nothing runs beside it."""
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


def pytest_collection_finish() -> None:
    """The garbage collector leaves alone what was imported, and comes less often."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says which tests did not run, and why, here and in the last lines of `make test`."""
    files: dict[str, list[str]] = {}
    for report in terminalreporter.getreports("skipped"):
        _, _, reason = report.longrepr
        files.setdefault(reason.removeprefix("Skipped: "), []).append(report.fspath)
    lines = [
        f"Not run, since {reason}: {len(places)} tests of {', '.join(sorted(set(places)))}\n"
        for reason, places in files.items()
    ]
    terminalreporter.write("".join(lines))
    if lines and (path := os.environ.get("OUTRIDER_NOT_RUN")):
        Path(path).write_text("".join(lines))
