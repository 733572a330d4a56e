"""What all tests have in common: their fixtures, and which of them begin first."""

import gc

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Loads the fixtures, and PyTorch with them, but not where xdist only hands out the tests."""
    gc.disable()  # while modules are imported, of which nothing is garbage
    if config.getoption("dist", "no") == "no":
        config.pluginmanager.import_plugin("tiny.fixtures")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts first what takes long or waits for processes: at the end nothing runs beside it."""
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


def pytest_collection_finish() -> None:
    """The garbage collector leaves alone what was imported, and comes less often."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000)
