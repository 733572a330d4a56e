"""Measurement: what is kept of one drafter on one question, as a line of a file."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

from outrider.contract.counts import Counts
from outrider.contract.draft import ROOT
from outrider.contract.round import Round
from outrider.lab.overlap import Overlap


@final
@dataclass(frozen=True, slots=True)
class Step:
    """A round of decoding, as far as reports need it.

    siblings: at each place that was tested, how many the draft had there.
    ranks: which of them was accepted, 0 being the first; none at the last place if all were
        rejected there.
    draft, score, verify: seconds.
    """

    tokens: tuple[int, ...]
    origins: tuple[str, ...]
    pieces: tuple[str, ...]
    drafted: int
    tested: int
    accepted: int
    siblings: tuple[int, ...]
    ranks: tuple[int, ...]
    draft: float
    score: float
    verify: float
    stop: str | None

    @classmethod
    def of(cls, round: Round) -> "Step":
        """Returns what is kept of a round."""
        children: dict[int, list[int]] = {}
        for node, parent in enumerate(round.parents):
            children.setdefault(parent, []).append(node)
        asked = (ROOT, *round.path)[: round.tested]
        return cls(
            round.tokens,
            round.origins,
            round.pieces,
            round.drafted,
            round.tested,
            round.accepted,
            tuple(len(children[parent]) for parent in asked),
            tuple(
                children[parent].index(node)
                for parent, node in zip((ROOT, *round.path), round.path, strict=False)
            ),
            **round.seconds,
            stop=round.stop,
        )


@final
@dataclass(frozen=True, slots=True)
class Decoding:
    """One text decoded with a drafter.

    steps: its rounds.
    seconds: in total, what lies between the phases included.
    plain_seconds: of one token of plain decoding on the same question in the same run, as a
        whole and of the target's call alone after the prompt was read.
    """

    steps: tuple[Step, ...]
    seconds: float
    plain_seconds: float
    plain_call: float

    @property
    def counts(self) -> Counts:
        """Returns the counts of all rounds."""
        return Counts(
            len(self.steps),
            sum(step.drafted for step in self.steps),
            sum(step.tested for step in self.steps),
            sum(step.accepted for step in self.steps),
            sum(len(step.tokens) for step in self.steps),
        )


@final
@dataclass(frozen=True, slots=True)
class Measurement:
    """One drafter on one question, by one protocol: one of `overlap` and `decoding` is there.

    prompt: the conversation's id, the unit of resampling. turn: which of its turns, from 1.
    """

    prompt: str
    turn: int
    category: str
    drafter: str
    overlap: Overlap | None = None
    decoding: Decoding | None = None

    @property
    def protocol(self) -> str:
        """Returns "overlap" or "decode"."""
        return "decode" if self.overlap is None else "overlap"

    def plain(self) -> dict[str, Any]:
        """Returns the measurement as plain values, for JSON."""
        return asdict(self)

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> "Measurement":
        """Returns what `plain` gave.

        Raises:
            KeyError, TypeError: it is something else.
        """
        fields = dict(item)
        overlap, decoding = fields.pop("overlap"), fields.pop("decoding")
        if overlap is not None:
            overlap = dict(overlap)
            by_rule = overlap.pop("by_rule")
            sums = {name: tuple(values) for name, values in overlap.items()}
            overlap = Overlap(**sums, by_rule=by_rule)
        if decoding is not None:
            steps = tuple(_step(step) for step in decoding["steps"])
            decoding = Decoding(**{**decoding, "steps": steps})
        return cls(**fields, overlap=overlap, decoding=decoding)


LISTS = ("tokens", "origins", "pieces", "siblings", "ranks")


def _step(item: Mapping[str, Any]) -> Step:
    lists = {name: tuple(item[name]) for name in LISTS}
    return Step(**{**item, **lists})
