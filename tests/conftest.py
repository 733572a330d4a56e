"""What all tests have in common: their fixtures, and which of them begin first."""

import gc
import os
from pathlib import Path

import pytest
from tiny import NO_BROWSER


def pytest_configure(config: pytest.Config) -> None:
    """Loads the fixtures, and PyTorch with them, but not where xdist only hands out the tests."""
    gc.disable()  # while modules are imported, of which nothing is garbage
    if config.getoption("dist", "no") == "no":
        for name in ("tiny.fixtures", "tiny.commands"):
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
    """Says which tests did not run for want of a browser, here and for `make test`'s last line."""
    skipped = terminalreporter.getreports("skipped")
    places = [report.fspath for report in skipped if NO_BROWSER in str(report.longrepr)]
    if places:
        files = ", ".join(sorted(set(places)))
        line = f"Not run, since {NO_BROWSER}: {len(places)} tests of {files}"
        terminalreporter.write_line(line)
        if path := os.environ.get("OUTRIDER_NOT_RUN"):
            Path(path).write_text(f"{line}\n")
