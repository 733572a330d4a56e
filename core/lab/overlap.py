"""Overlap: alpha by Leviathan's protocol, from p and q at each prefix of the target's text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from outrider.contract.chance import SampledChance
from outrider.contract.context import Context, Tokens
from outrider.contract.draft import ROOT, Draft
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.contract.verifier import Scores, Verifier
from outrider.decoding.rounds import call_drafter
from outrider.lab.text_probs import LedChance, drafter_probability, probability
from outrider.verifiers.ceiling import acceptance_ceiling

CHUNK = 64
"""Prefixes given to a drafter at once; all of their distributions are in memory together."""

Floats = NDArray[np.float64]


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
    text is expected to count under the token rule:

    rounds, tested, accepted: see `outrider.Counts`.

    by_rule: the sum over prefixes of sum_x q(x) P(accept x) under the run's acceptance rule; None
        if the rule decides over several tokens together.
    ceiling: the sum over prefixes of the best acceptance that any lossless rule can reach at the
        first node of a draft, and the number of these prefixes: all but those whose ceiling has no
        short formula. See `outrider.verifiers.ceiling`.
    text, text_p, text_q: the text's tokens, and the probability of each to the target and to the
        drafter before the run's sampling (1 or 0 for a token that was written, None where there was
        no draft). Empty in runs of earlier versions, and for trees.
    """

    prefixes: tuple[float, ...]
    reached: tuple[float, ...]
    beta: tuple[float, ...]
    rounds: tuple[float, ...]
    tested: tuple[float, ...]
    accepted: tuple[float, ...]
    by_rule: float | None
    ceiling: tuple[float, float] = (0.0, 0.0)
    text: tuple[int, ...] = ()
    text_p: tuple[float, ...] = ()
    text_q: tuple[float | None, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Reference:
    """A text that the target wrote, with the target's logits at each prefix of it.

    ids: the tokens before the text, then the text.
    start: how many tokens come before the text: the prompt's, or a decoder's start token.
    source: an encoder's input, or None.
    features: the target's features for drafters that need them, by name.
    ended: whether the text ends with an end token, rather than at the length limit.
    """

    ids: list[int]
    start: int
    source: Tokens | None
    logits: Float[Tensor, "text vocab"]
    features: dict[str, Tensor]
    ended: bool

    def before(self, row: int) -> Context:
        """Returns the context before token `row` of the text."""
        length = self.start + row
        # As in decoding, without the state of the newest token: the target has not read it yet.
        features = {name: states[: length - 1] for name, states in self.features.items()}
        return Context(Tokens(self.ids, length), self.source, features)


def reference(
    target: Target, prompt: Sequence[int], text: Sequence[int], needs: frozenset[str] = frozenset()
) -> Reference:
    """Returns the target's logits along its own `text`, from one pass.

    needs: the features that drafters need; see `outrider.Drafter.needs`.
    """
    session = target.open(prompt, needs)
    logits = session.score(Draft.chain(text))[: len(text)]
    before, source = target.begin(prompt)
    ended = text[-1] in target.eos
    return Reference([*before, *text], len(before), source, logits, session.features(), ended)


def overlap(
    text: Reference,
    drafter: Drafter,
    verifier: Verifier,
    sampling: Sampling,
    gamma: int,
    *,
    budget: int | None = None,
    draft_timeout: float | None = None,
) -> Overlap:
    """Returns how far the drafter's distributions overlap with the target's along `text`.

    Each draft is made to follow the text. A lossless rule emits token x with probability p(x) in
    all, and with probability min(p, q)(x) from the draft. So, given the text, its token x was
    drafted and accepted with probability min(1, q(x) / p(x)). With these weights the mean over
    texts is exactly the mean over drawn drafts, without the noise of drawing.

    For a drafter that writes trees all sums but `ceiling` are 0: a tree has no single token at a
    depth.

    budget: the most nodes of a tree. Defaults to gamma.
    draft_timeout: the most seconds that the drafter may take for a draft; None for no limit.
    """
    if drafter.trees:
        zeros = (0.0,) * gamma
        ceiling = _tree_ceiling(text, drafter, sampling, gamma, budget)
        return Overlap(zeros, zeros, zeros, zeros, zeros, zeros, None, ceiling)
    depths = 1 if drafter.autoregressive else gamma
    beta, keep, has, text_q, by_rule = _along(
        text, drafter, verifier, sampling, depths, draft_timeout=draft_timeout
    )
    if drafter.autoregressive:
        beta, keep, has = (_shifted(table[:, 0], gamma) for table in (beta, keep, has))
    positions = len(text.logits)
    reach = np.concatenate([np.ones((positions, 1)), keep[:, :-1].cumprod(1)], axis=1)
    counts = [replay(keep, has, depth + 1, ended=text.ended) for depth in range(gamma)]
    rounds, tested, accepted = zip(*counts, strict=True)
    return Overlap(
        prefixes=tuple(float(max(0, positions - depth)) for depth in range(gamma)),
        reached=tuple((reach * has).sum(0).tolist()),
        beta=tuple((reach * beta).sum(0).tolist()),
        rounds=rounds,
        tested=tested,
        accepted=accepted,
        by_rule=by_rule,
        # Of one token, sum_x min(p, q) is the best: a prefix without a draft counts as 0.
        ceiling=(float(beta[:, 0].sum()), float(positions)),
        text=tuple(text.ids[text.start :]),
        text_p=tuple(map(probability, text.logits, text.ids[text.start :])),
        text_q=tuple(text_q),
    )


def _tree_ceiling(
    text: Reference, drafter: Drafter, sampling: Sampling, gamma: int, budget: int | None
) -> tuple[float, float]:
    """Returns the ceiling of the first tokens of trees, summed over prefixes, and their number."""
    probs = Scores(text.logits, sampling).probs
    total = count = 0.0
    for row, p in enumerate(probs):
        pen = Pen(
            sampling=sampling,
            chance=SampledChance.seeded(sampling.seed + row),
            vocab_size=text.logits.shape[-1],
            gamma=gamma,
            budget=budget,
        )
        drafter.propose_batch([(text.before(row), pen)])
        draft = pen.finish()
        ceiling = acceptance_ceiling(draft, ROOT, p, drafter.kind) if draft else 0.0
        if ceiling is not None:
            total, count = total + ceiling, count + 1
    return total, count


def _along(
    text: Reference,
    drafter: Drafter,
    verifier: Verifier,
    sampling: Sampling,
    depths: int,
    *,
    draft_timeout: float | None,
) -> tuple[Floats, Floats, Floats, list[float | None], float | None]:
    """Returns three tables [positions, depths] over drafts from each position, q, and `by_rule`.

    The tables hold sum_x min(p(x), q(x)); the probability that the text's token was drafted and
    accepted; and 1 where the draft has a token at that depth.
    """
    positions = len(text.logits)
    scores = Scores(text.logits, sampling)
    by_rule: float | None = 0.0
    beta, keep, has = np.zeros((3, positions, depths))
    text_q: list[float | None] = []
    for first in range(0, positions, CHUNK):
        rows = range(first, min(first + CHUNK, positions))
        drafts = _drafts_along(text, drafter, sampling, rows, depths, draft_timeout=draft_timeout)
        for row, draft in zip(rows, drafts, strict=True):
            text_q.append(drafter_probability(draft, text.ids[text.start + row]))
            for depth, (token, probs) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
                position = row + depth
                p, actual = scores.probs[position], text.ids[text.start + position]
                q = _point_mass(token, p) if probs is None else probs.to(p.device)
                beta[row, depth] = float(p.minimum(q).sum())
                # The text was written in another pass, so p may be 0 for its token by rounding.
                keep[row, depth] = min(1.0, float(q[actual] / p[actual])) if p[actual] > 0 else 0.0
                has[row, depth] = 1.0
                if depth == 0 and by_rule is not None:
                    rates = verifier.accepts(q, scores, row - 1)
                    by_rule = None if rates is None else by_rule + float((q * rates).sum())
    return beta, keep, has, text_q, by_rule


def replay(keep: Floats, has: Floats, gamma: int, *, ended: bool) -> tuple[float, float, float]:
    """Returns the expected numbers of rounds, tested and accepted tokens when a text is decoded.

    Given the text, where a round starts depends only on the round before. So the probability that a
    round starts at a position follows from those of the positions before it.

    keep: [positions, depths], for a draft that starts at the position and gets to the depth, the
        probability that the text's token there was drafted and accepted.
    has: [positions, depths], whether such a draft has a token there.
    ended: whether the text came to its own end; only then may a draft hold its last token.
    """
    positions = len(keep)
    starts = np.zeros(positions + gamma + 1)
    starts[0] = 1.0
    rounds = tested = accepted = 0.0
    for position in range(positions):
        alive = float(starts[position])
        rounds += alive
        depth = 0
        room = min(gamma, positions - position - (not ended))
        while alive > 0 and depth < room and has[position, depth]:
            acceptance = float(keep[position, depth])
            tested += alive
            accepted += alive * acceptance
            starts[position + depth + 1] += alive * (1 - acceptance)
            alive *= acceptance
            depth += 1
        starts[position + depth + 1] += alive
    return rounds, tested, accepted


def _drafts_along(
    text: Reference,
    drafter: Drafter,
    sampling: Sampling,
    rows: range,
    gamma: int,
    *,
    draft_timeout: float | None,
) -> list[Draft]:
    """Returns the drafts that start at some positions and follow the text as far as they can."""
    pairs = []
    for row in rows:
        length = text.start + row
        following = text.ids[length : length + gamma]
        chance = LedChance(following, SampledChance.seeded(sampling.seed + row))
        pen = Pen(
            sampling=sampling,
            chance=chance,
            vocab_size=text.logits.shape[-1],
            gamma=len(following),
            more=chance.more,
        )
        pairs.append((text.before(row), pen))
    # The limit of each draft, for all of them together.
    seconds = None if draft_timeout is None else draft_timeout * len(pairs)
    call_drafter(drafter, pairs, seconds)
    return [pen.finish() for _, pen in pairs]


def _point_mass(token: int, like: Tensor) -> Tensor:
    probs = torch.zeros_like(like)
    probs[token] = 1.0
    return probs


def _shifted(column: Floats, gamma: int) -> Floats:
    """Returns the table whose column d holds `column` from entry d on, padded with zeros."""
    padded = np.concatenate([column, np.zeros(gamma)])
    return np.stack([padded[depth : depth + len(column)] for depth in range(gamma)], axis=1)
