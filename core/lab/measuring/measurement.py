"""Measurement: one drafter on one question, stored as a line of JSON.

The fields of these classes are the keys of the file; those that have a default are missing in runs
of earlier versions.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, final

from outrider.base.bounds import Finite, Name, Whole
from outrider.base.expectations import AtLeast
from outrider.contract.round import ROOT, Counts, Round

Time = Annotated[Finite, AtLeast(0)]

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@final
@dataclass(frozen=True, slots=True)
class Step:
    """A round of decoding, as far as reports need it; see also `outrider.Round`.

    siblings: for each position that was tested, how many sibling tokens the draft had there.
    ranks: for each position, which sibling was accepted, 0 being the first. Shorter by one than
        `siblings` if all siblings at the last position were rejected.
    draft, score, verify: seconds of each phase.
    proposed, parents: the characters of each token of the draft, and the node that it continues
        (-1: the context).
    """

    tokens: tuple[Whole, ...]
    origins: tuple[Name, ...]
    pieces: tuple[str, ...]
    drafted: Whole
    tested: Whole
    accepted: Whole
    siblings: tuple[Whole, ...]
    ranks: tuple[Whole, ...]
    draft: Time
    score: Time
    verify: Time
    stop: Name | None
    proposed: tuple[str, ...] = ()
    parents: tuple[int, ...] = ()

    @classmethod
    def of(cls, round: Round, piece: Callable[[int], str] = str) -> "Step":
        """Returns the step that stores a round.

        piece: gives the characters of a token; the default is its id.
        """
        children: dict[int, list[int]] = {}
        for node, parent in enumerate(round.parents):
            children.setdefault(parent, []).append(node)
        tested_parents = (ROOT, *round.path)[: round.tested]
        return cls(
            round.tokens,
            round.origins,
            round.pieces,
            round.drafted,
            round.tested,
            round.accepted,
            tuple(len(children[parent]) for parent in tested_parents),
            tuple(children[parent].index(node) for parent, node in pairwise((ROOT, *round.path))),
            **round.seconds,
            stop=round.stop,
            proposed=tuple(map(piece, round.draft)),
            parents=round.parents,
        )


@final
@dataclass(frozen=True)
class Decoding:
    """One text decoded with a drafter.

    steps: its rounds.
    seconds: in total, including the time between phases.
    plain_seconds: per token of plain decoding on the same question in the same run.
    plain_call: seconds of one target call of that plain decoding, once the prompt has been read.
    scores, plain_scores: by name, the scores of the text and of that of plain decoding; see
        `outrider.data.score`.
    repeats, plain_repeats: `seconds` and `plain_seconds` of every repeat, in the order of time. The
        fields above are those of the repeat with the median seconds.
    prompt_tokens: the tokens of the prompt.
    """

    steps: tuple[Step, ...]
    seconds: Finite
    plain_seconds: Finite
    plain_call: Finite
    repeats: tuple[Finite, ...] = ()
    plain_repeats: tuple[Finite, ...] = ()
    scores: Mapping[Name, Finite] = field(default_factory=dict)
    plain_scores: Mapping[Name, Finite] = field(default_factory=dict)
    prompt_tokens: Whole = 0

    @cached_property
    def counts(self) -> Counts:
        """Returns the sums of the counts of all rounds."""
        return Counts(
            len(self.steps),
            sum(step.drafted for step in self.steps),
            sum(step.tested for step in self.steps),
            sum(step.accepted for step in self.steps),
            sum(len(step.tokens) for step in self.steps),
        )


@final
@dataclass(frozen=True, slots=True)
class Overlap:
    """Sums over a text that the target wrote.

    These are by the depth of the draft, entry d - 1 for depth d, with a draft starting at every
    prefix:

    prefixes: the number of prefixes at which a draft of this depth fits into the text.
    reached: the sum of the probabilities that a draft gets this far: all of its earlier tokens are
        accepted, and it has another one. At depth 1, the number of prefixes that have a draft.
    beta: the sum of those probabilities times sum_x min(p(x), q(x)): the expected number of drafts
        that are accepted to this depth.

    These are by the gamma of decoding, entry g - 1 for gamma g. They are what decoding this very
    text with the run's rule and policy is expected to count:

    rounds, tested, accepted: see `outrider.Counts`.

    All are 0 where that is unknown: if the rule is lossy, since its texts are not the target's; if
    it has neither `Verifier.accepts` nor `accepts_along`; and if the policy learns from earlier
    rounds.

    survived, ended: the expected number of drafts that are accepted past each depth, from 0 to
        gamma, and of those that end there; see `lab.statistics.acceptance.ends_by_depth`. First
        come the depths at gamma 1, then those at gamma 2, and so on; see `at_gamma` there.
    by_rule: the sum over prefixes of sum_x q(x) P(accept x) under the run's acceptance rule; None
        if the rule decides over several tokens together.
    overshoot: the sum over prefixes of sum_x max(0, q(x) P(accept x) - p(x)), by how much the rule
        accepts tokens beyond what the target would write (2607.26627). None for a lossless rule,
        and where `by_rule` is None.
    ceiling: the sum over prefixes of the best acceptance that any lossless rule can reach at the
        first node of a draft, and the number of these prefixes: all but those whose ceiling has no
        short formula. See `outrider.verifiers.ceiling`.
    control: the sum of sum_x min(p(x), q(x)) at some prefixes, and their number, where the drafter
        is given the target's features of one token before, or q is shuffled if it reads none. What
        is left of alpha then, it owes to neither. Zeros where alpha is unknown.
    text, text_p, text_q: the text's tokens, and the probability of each to the target and to the
        drafter before the run's sampling (1 or 0 for a token that was written, None where there was
        no draft). Empty for trees.
    """

    prefixes: tuple[Finite, ...]
    reached: tuple[Finite, ...]
    beta: tuple[Finite, ...]
    rounds: tuple[Finite, ...]
    tested: tuple[Finite, ...]
    accepted: tuple[Finite, ...]
    by_rule: Finite | None
    ceiling: tuple[Finite, Finite] = (0.0, 0.0)
    survived: tuple[Finite, ...] = ()
    ended: tuple[Finite, ...] = ()
    text: tuple[Whole, ...] = ()
    text_p: tuple[Finite, ...] = ()
    text_q: tuple[Finite | None, ...] = ()
    overshoot: Finite | None = None
    control: tuple[Finite, Finite] = (0.0, 0.0)


@final
@dataclass(frozen=True, slots=True)
class Measurement:
    """One drafter on one question, by one protocol: either `overlap` or `decoding` is set.

    prompt: the conversation's id; conversations are the units of resampling.
    turn: the number of the turn, from 1.
    error: in place of both, why the drafter was measured no further.
    """

    prompt: str
    turn: Whole
    category: Name
    drafter: Name
    overlap: Overlap | None = None
    decoding: Decoding | None = None
    error: str | None = None

    @property
    def protocol(self) -> str:
        """Returns "overlap" or "decode"."""
        return "decode" if self.overlap is None else "overlap"

    def plain(self) -> dict[str, Any]:
        """Returns the measurement as plain values, for JSON."""
        return asdict(self)

    @classmethod
    def read(cls, item: Any) -> "Measurement":
        """Returns the measurement with these plain values; unknown fields are ignored.

        Raises `ValueError` if `item` does not hold those of a measurement.
        """
        return _adapter().validate_python(item)


@cache
def _adapter() -> "TypeAdapter[Measurement]":
    from pydantic import TypeAdapter

    return TypeAdapter(Measurement)
