"""A table as a value: columns with their meaning, and rows of names and figures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, final

from outrider.lab.runs.row import Row
from outrider.lab.statistics.intervals import Interval
from outrider.lab.statistics.pairs import LEVEL


@final
@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    heading: in one line or more; words may be cut to save room, as in "cover-" above "age".
    name: of the rate in files and data frames; empty if it is none.
    digits: the number of decimals of its figures.
    source: what its figures come from: the overlap protocol, decoding, the clock while decoding, or
        scores of the texts.
    meaning: in a few words; may be empty.
    kind: of its cells: names, which stay whole, other text, or figures.
    interval: whether terminals and papers show its intervals.
    beside: whether they stand beside the figures in terminals too, and not below them.
    spare: its turn to be left out where a terminal is too narrow; 0 if it never is.
    """

    heading: str
    name: str = ""
    digits: int = 3
    source: Literal["overlap", "decode", "clock", "texts", ""] = ""
    meaning: str = ""
    kind: Literal["name", "text", "figure"] = "figure"
    interval: bool = True
    beside: bool = False
    spare: int = 0

    @property
    def whole(self) -> str:
        """Returns the heading with whole words, in one line or more."""
        return self.heading.replace("-\n", "").replace("expect.", "expected")

    @property
    def title(self) -> str:
        """Returns the heading with whole words, in one line."""
        return self.whole.replace("\n", " ")


# fmt: off
RATES: Mapping[str, Column] = {column.name: column for column in (
    Column("alpha", "alpha", 3, "overlap",
           "the overlap of the draft and target distributions"),
    Column("cover-\nage", "coverage", 2, "overlap",
           "the share of positions at which the drafter had a draft", interval=False, spare=2),
    Column("alpha\nof rule", "alpha_rule", 3, "overlap",
           "the same under the run's acceptance rule, which may accept more or less", spare=7),
    Column("over-\nshoot", "overshoot", 3, "overlap",
           "how much the rule accepts beyond what the target would write", interval=False, spare=6),
    Column("alpha\nceiling", "alpha_ceiling", 3, "overlap",
           "the best acceptance that any lossless rule could reach", interval=False, spare=4),
    Column("expect.\naccepted", "expected_alpha_tested", 3, "overlap",
           "what is accepted of tested as the distributions lead one to expect", interval=False),
    Column("expect.\ntokens", "expected_block_efficiency", 2, "overlap",
           "tokens per call as the distributions lead one to expect, if no text were cut",
           interval=False),
    Column("alpha of\ncontrol", "alpha_control", 3, "overlap",
           "the same from states of one token before, or with the vocabulary shuffled",
           interval=False, spare=1),
    Column("accepted\nof tested", "alpha_tested", 3, "decode",
           "the share of the draft tokens that the rule looked at (in a tree, of the positions)"),
    Column("accepted\nof drafted", "acceptance_rate", 3, "decode",
           "accepted draft tokens over all draft tokens", interval=False, spare=3),
    Column("tokens\nper call", "block_efficiency", 2, "decode",
           "the tokens of the texts over the target's calls, at most gamma + 1", interval=False),
    Column("tokens\nper s", "tokens_per_second", 1, "clock",
           "the tokens of the text per second", interval=False, spare=5),
    Column("speed-\nup", "speedup", 2, "clock",
           "how many times as fast as plain decoding"),
    Column("median\nspeedup", "speedup_median", 2, "clock",
           "the median over prompts of the speedup", spare=1),
)}
# fmt: on
"""By name, in the order of terminals and files; scores follow them."""

SCORES = {"rouge2": "how many pairs of words the texts share with the references"}
"""By score, its meaning."""

BESIDE_ALPHA = ("alpha_rule", "alpha_ceiling")
"""The rates that are shown only where they differ from alpha."""


def column_of(name: str) -> Column:
    """Returns the column of a rate, a score, or a score minus that of plain decoding."""
    if name in RATES:
        return RATES[name]
    heading = "minus\nplain's" if name.endswith("_difference") else name
    return Column(heading, name, meaning=SCORES.get(name, ""), source="texts")


def measured_rates(rows: Sequence[Row]) -> list[str]:
    """Returns the names of the rates and scores that rows have values for, in order.

    `alpha_rule` and `alpha_ceiling` are left out if they equal alpha everywhere.
    """
    scores = dict.fromkeys(
        name for row in rows for score in row.scores for name in (score, f"{score}_difference")
    )
    return [
        name
        for name in (*RATES, *scores)
        if any(row.rates.get(name) is not None for row in rows)
        and (name not in BESIDE_ALPHA or any(_differs_from_alpha(row, name) for row in rows))
    ]


def _differs_from_alpha(row: Row, name: str) -> bool:
    alpha, rate = row.rates["alpha"], row.rates[name]
    return rate is not None and (alpha is None or abs(alpha.value - rate.value) > 1e-6)


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


def lines_of(cell: Cell, column: Column, *, brackets: bool = False) -> list[str]:
    """Returns the lines of a cell: a figure, and what may stand below it; see `Figure.lines`."""
    if isinstance(cell, Figure):
        return cell.lines(interval=column.interval, brackets=brackets)
    return ["-" if cell is None else cell]


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
