"""A bar is shown on a terminal for what takes long, and nowhere else."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from outrider.base import waiting as waiting_module
from outrider.base.waiting import shown_bar, steps, waiting


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], io.StringIO]:
    """Makes remarks go to what it returns, which is a terminal or a pipe."""

    def to(terminal: bool) -> io.StringIO:
        file = io.StringIO()
        console = Console(file=file, force_terminal=terminal, force_interactive=terminal, width=80)
        monkeypatch.setattr(waiting_module, "remarks", lambda: console)
        return file

    return to


def test_a_bar_is_erased_at_the_end(shown: Callable[[bool], io.StringIO]) -> None:
    file = shown(True)
    with waiting("loading \x1b[31m"), waiting("inside"):
        assert "loading \\x1b[31m" in file.getvalue()
    assert "inside" not in file.getvalue()
    assert file.getvalue().endswith("\x1b[2K")  # the line is erased


def test_steps_move_the_bar(shown: Callable[[bool], io.StringIO]) -> None:
    shown(True)
    with waiting("loading"):
        bar = shown_bar.get()
        seen = [(bar.tasks[0].completed, bar.tasks[0].total) for _ in steps("abc")]
    assert seen == [(0, 3), (1, 3), (2, 3)]
    assert [*steps(iter("abc"))] == ["a", "b", "c"]


def test_a_pipe_gets_no_bar(shown: Callable[[bool], io.StringIO]) -> None:
    file = shown(False)
    with waiting("loading"):
        assert [*steps("abc")] == ["a", "b", "c"]
    assert file.getvalue() == ""
