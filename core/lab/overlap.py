"""Alpha by Leviathan's protocol: how far p and q overlap, at each prefix of the target's text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from outrider.contract.chance import Chance, SampledChance
from outrider.contract.context import Context, Tokens
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.contract.verifier import Scores, Verifier

CHUNK = 64
"""Prefixes handed to a drafter at once; their distributions are in memory together."""

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True)
class Overlap:
    """Sums over a text that the target wrote.

    By the depth of the draft, entry d - 1 for depth d, a draft starting at every prefix:

    prefixes: at how many of them a draft of that depth fits into the text.
    reached: the sum of the probabilities that a draft gets there: that all of its tokens before
        are accepted and it has one more. At depth 1, how many prefixes have a draft.
    beta: the sum of those times sum_x min(p(x), q(x)): the drafts accepted to that depth.

    By the gamma of decoding, entry g - 1 for gamma g: what decoding this very text is expected
    to count under the token rule.

    rounds, tested, accepted: see `outrider.contract.counts.Counts`.

    by_rule: the sum over prefixes of sum_x q(x) P(accept x) under the run's rule, None where
        the rule looks at more than one place.
    """

    prefixes: tuple[float, ...]
    reached: tuple[float, ...]
    beta: tuple[float, ...]
    rounds: tuple[float, ...]
    tested: tuple[float, ...]
    accepted: tuple[float, ...]
    by_rule: float | None


@final
@dataclass(frozen=True, slots=True)
class Reference:
    """A text that the target wrote, with its logits at each prefix of it.

    ids: what the text began with and the text. start: the length of the former: the prompt, or a
        decoder's start token. source: an encoder's input. features: what a session kept.
    ended: whether the text came to its own end, rather than to a limit of length.
    """

    ids: list[int]
    start: int
    source: Tokens | None
    logits: Float[Tensor, "text vocab"]
    features: dict[str, Tensor]
    ended: bool


def reference(
    target: Target, prompt: Sequence[int], text: Sequence[int], needs: frozenset[str] = frozenset()
) -> Reference:
    """Returns the target's logits along its own `text`, of one pass."""
    session = target.open(prompt, needs)
    logits = session.score(Draft.chain(text))[: len(text)]
    before, source = target.begin(prompt)
    ended = text[-1] in target.eos
    return Reference([*before, *text], len(before), source, logits, session.features(), ended)


def overlap(
    text: Reference, drafter: Drafter, verifier: Verifier, sampling: Sampling, gamma: int
) -> Overlap:
    """Returns how far the drafter's distributions overlap with the target's along `text`.

    A draft is led along the text. Of the tokens x that a lossless rule emits at a place,
    min(p, q)(x) come from the draft, and p(x) do in all: given the text, its token x there was
    drafted and accepted with probability min(1, q(x) / p(x)). These weights make the means over
    texts exactly those of drafts that are drawn, without the noise of drawing. Of a drafter of
    trees there is nothing to sum.
    """
    places = len(text.logits)
    if drafter.trees:  # a tree has no one place at a depth
        nothing = (0.0,) * gamma
        return Overlap(nothing, nothing, nothing, nothing, nothing, nothing, None)
    scores = Scores(text.logits, sampling)
    by_rule: float | None = 0.0
    depths = 1 if drafter.autoregressive else gamma
    beta, keep, has = np.zeros((3, places, depths))
    for first in range(0, places, CHUNK):
        rows = range(first, min(first + CHUNK, places))
        for row, draft in zip(rows, _led(text, drafter, sampling, rows, depths), strict=True):
            for depth, (token, probs) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
                at = row + depth
                p, actual = scores.probs[at], text.ids[text.start + at]
                q = _point(token, p) if probs is None else probs.to(p.device)
                beta[row, depth] = float(p.minimum(q).sum())
                # A text that was written in another pass may hold what p calls impossible.
                keep[row, depth] = min(1.0, float(q[actual] / p[actual])) if p[actual] > 0 else 0.0
                has[row, depth] = 1.0
                if depth == 0 and by_rule is not None:
                    rates = verifier.accepts(q, scores, row - 1)
                    by_rule = None if rates is None else by_rule + float((q * rates).sum())
    if drafter.autoregressive:
        beta, keep, has = (_slid(table[:, 0], gamma) for table in (beta, keep, has))
    before = np.concatenate([np.ones((places, 1)), keep[:, :-1].cumprod(1)], axis=1)
    counts = [replay(keep, has, depth + 1, ended=text.ended) for depth in range(gamma)]
    rounds, tested, accepted = zip(*counts, strict=True)
    return Overlap(
        tuple(float(max(0, places - depth)) for depth in range(gamma)),
        tuple((before * has).sum(0).tolist()),
        tuple((before * beta).sum(0).tolist()),
        rounds,
        tested,
        accepted,
        by_rule,
    )


def replay(keep: Floats, has: Floats, gamma: int, *, ended: bool) -> tuple[float, float, float]:
    """Returns the rounds, tested and accepted tokens that decoding a text is expected to take.

    Given the text, where a round starts depends on the round before alone, so that the
    probability of a round's starting at each place follows from those before it.

    keep: [places, depths], the probability that the text's token was drafted and accepted, where
        a draft that starts at the place gets to that depth. has: whether it has one more there.
    ended: whether a draft may hold the last token, as it may where the text came to its end.
    """
    places = len(keep)
    starts = np.zeros(places + gamma + 1)
    starts[0] = 1.0
    rounds = tested = accepted = 0.0
    for place in range(places):
        here = float(starts[place])
        rounds += here
        depth = 0
        room = min(gamma, places - place - (not ended))
        while here > 0 and depth < room and has[place, depth]:
            kept = float(keep[place, depth])
            tested += here
            accepted += here * kept
            starts[place + depth + 1] += here * (1 - kept)
            here *= kept
            depth += 1
        starts[place + depth + 1] += here
    return rounds, tested, accepted


def _led(
    text: Reference, drafter: Drafter, sampling: Sampling, rows: range, gamma: int
) -> list[Draft]:
    """Returns the drafts at some rows of the text, led along it, and no longer than they get."""
    pairs = []
    for row in rows:
        length = text.start + row
        # As in decoding: no state of the newest token, which the target has yet to read.
        features = {name: states[: length - 1] for name, states in text.features.items()}
        ahead = text.ids[length : length + gamma]
        chance = LedChance(ahead, SampledChance.seeded(sampling.seed + row))
        pen = Pen(
            sampling=sampling,
            chance=chance,
            vocab_size=text.logits.shape[-1],
            gamma=len(ahead),
            more=chance.more,
        )
        pairs.append((Context(Tokens(text.ids, length), text.source, features), pen))
    drafter.propose_batch(pairs)
    return [pen.finish() for _, pen in pairs]


@final
class LedChance(Chance):
    """Draws the tokens of a given text wherever they have any probability."""

    def __init__(self, ahead: Sequence[int], other: Chance) -> None:
        self._ahead = ahead
        self._other = other
        self._place = 0

    def more(self, draft: Draft) -> bool:
        """Takes note of how far a draft is, and returns whether the text can go on from it."""
        self._place = len(draft)
        return draft.tokens[-1] == self._ahead[self._place - 1]

    def coins(self, probs: Float[Tensor, "n"]) -> list[bool]:
        return self._other.coins(probs)

    def categorical(self, probs: Float[Tensor, "vocab"]) -> int:
        token = self._ahead[self._place]
        return token if probs[token] > 0 else self._other.categorical(probs)


def _point(token: int, like: Tensor) -> Tensor:
    probs = torch.zeros_like(like)
    probs[token] = 1.0
    return probs


def _slid(column: Floats, gamma: int) -> Floats:
    """Returns the table whose depth d at row r is the column's row r + d; zeros past its end."""
    padded = np.concatenate([column, np.zeros(gamma)])
    return np.stack([padded[depth : depth + len(column)] for depth in range(gamma)], axis=1)
