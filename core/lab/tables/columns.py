"""Lists the figures of a drafter that tables show, each with its meaning, digits and source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, final

from outrider.lab.runs.row import Row


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
