"""Bars on the terminal for what takes a while."""

from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    track,
)

from outrider.base.terminal import remarks, visible

Item = TypeVar("Item")

shown_bar: ContextVar[Progress | None] = ContextVar("shown_bar", default=None)


def bars(*, stderr: bool = True) -> Progress:
    """Returns progress bars, where `remarks` go."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeRemainingColumn(), console=remarks(stderr=stderr))


def tracked(items: Iterable[Item], what: str, total: int) -> Iterable[Item]:
    """Yields each item of a command's work, and shows how many of `total` are done, if any are."""
    return track(items, what, total, console=remarks(stderr=False), disable=not total)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Shows a bar while the block runs, and erases it; none in a pipe.

    Within another such block, the outer one's bar is shown.

    what: what the bar says, such as "loading weights".
    """
    console = remarks()
    if not console.is_interactive or shown_bar.get() is not None:
        yield
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True)
    bar.add_task(visible(what), total=None)
    token = shown_bar.set(bar)
    try:
        with bar:
            yield
    finally:
        shown_bar.reset(token)


def steps(items: Iterable[Item]) -> Iterator[Item]:
    """Yields each item, and moves the bar of the block that is waited for, if there is one."""
    bar, total = shown_bar.get(), len(items) if isinstance(items, Sized) else None
    for done, item in enumerate(items):
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done, total=total)
        yield item
