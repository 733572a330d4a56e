"""A table as a value: columns, and rows of names and figures."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from outrider.lab.statistics.intervals import Interval
from outrider.lab.statistics.pairs import LEVEL
from outrider.lab.tables.columns import Column

RUN = "run"
"""The heading of a first column whose equal cells are one group of rows."""


@final
@dataclass(frozen=True, slots=True)
class Figure:
    """A number in a table, with its interval.

    digits: the number of decimals. mark: stands behind the number, such as stars.
    signed: whether it is a difference, which always has its sign.
    reach: whether its interval is shown as how far it reaches to either side.
    p: the corrected p-value of a difference; None if it is not tested.
    """

    interval: Interval
    digits: int = 3
    mark: str = ""
    signed: bool = False
    reach: bool = False
    p: float | None = None

    @property
    def number(self) -> str:
        """Returns the number without its mark."""
        value = round(self.interval.value, self.digits) + 0.0  # no -0.00
        return f"{value:{'+' if self.signed else ''}.{self.digits}f}"

    def lines(self, *, interval: bool = True, brackets: bool = False) -> list[str]:
        """Returns the number, and what stands below or beside it.

        interval: whether to show it. brackets: whether it stands in brackets, with a comma.
        """
        result = [self.number + self.mark]
        value, low, high = self.interval.value, self.interval.low, self.interval.high
        if interval and low is not None and high is not None:
            if self.signed:
                ends = [f"{end:+.{self.digits}f}" for end in (low, high)]
            else:
                ends = [f"{end:.2f}".removeprefix("0") for end in (low, high)]
            if self.reach:
                result.append(f"±{max(value - low, high - value):.2f}")
            elif brackets:
                result.append(f"[{', '.join(ends)}]")
            else:
                result.append((" " if self.signed else "-").join(ends))
        if self.p is not None:
            result.append(f"p {self.p:.2g}{' *' * (self.p < LEVEL)}")
        return result


Cell = str | Figure | None
"""None stands for a figure that was not measured."""


@final
@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    notes: what a reader has to know, a line each.
    ceilings: the rows that stand below a rule, since they are not ranked.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    ceilings: tuple[int, ...] = ()

    @property
    def grouped(self) -> bool:
        """Returns whether the first column names the run of each row."""
        return bool(self.columns) and self.columns[0].heading == RUN

    def groups(self) -> Iterator[tuple[tuple[Cell, ...], bool]]:
        """Yields each row and whether a rule stands above it.

        That is the first row of a run, whose name stands there alone, or the first of its ceilings.
        """
        before: Cell = None
        for number, row in enumerate(self.rows):
            is_new = self.grouped and row[0] != before
            before = row[0]
            is_below = number in self.ceilings and number - 1 not in self.ceilings
            shown = ("", *row[1:]) if self.grouped and not is_new else row
            yield shown, is_new or is_below


def names_of(*headings: str, runs: bool = False) -> tuple[Column, ...]:
    """Returns columns of names. runs: whether that of the run comes first."""
    run = (Column(RUN, kind="text"),) if runs else ()
    return (*run, *(Column(heading, kind="name") for heading in headings))
