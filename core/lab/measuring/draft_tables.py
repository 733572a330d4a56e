"""What the drafts along a text overlap with the target's, and what decoding is to count."""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.calling import calling
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.verifier import Scores, Verifier
from outrider.lab.measuring.reference import Drafting, Reference, drafts_along

Floats = npt.NDArray[np.float64]

CHUNK = 64
"""Prefixes given to a drafter at once; all of their distributions are in memory together."""


@final
@dataclass(frozen=True)
class DraftTables:
    """Tables [positions, depths] over the drafts that start at each position of a text.

    beta: sum_x min(p(x), q(x)).
    ratios: q(x) / p(x) for the text's token.
    keep_by_rule: the probability that the text's token was drafted and accepted by the run's rule;
        only if that is lossless and decides token by token.
    has_token: 1 where the draft has a token. allowed: the same under the run's policy.
    by_rule, overshoot, text_q: see `Overlap`.
    shuffled: the sum of sum_x min(p(x), q(y)) at the first depth, where y takes the place of x in a
        shuffled vocabulary.
    """

    beta: Floats
    ratios: Floats
    keep_by_rule: Floats
    has_token: Floats
    allowed: Floats
    by_rule: float | None
    overshoot: float
    text_q: list[float | None]
    shuffled: float

    def shifted(self, gamma: int) -> "DraftTables":
        """Returns the tables up to depth `gamma`, from their first column.

        The token at depth d of an autoregressive drafter has the distribution of the first token
        of a draft that starts d - 1 positions later.
        """
        by_depth = ("beta", "ratios", "keep_by_rule", "has_token", "allowed")
        tables: dict[str, Any] = {
            name: _shifted(getattr(self, name)[:, 0], gamma) for name in by_depth
        }
        return replace(self, **tables)


def draft_tables(
    text: Reference, drafter: Drafter, verifier: Verifier, drafting: Drafting
) -> DraftTables:
    positions, depths = len(text.logits), drafting.depths
    scores = Scores(text.logits, drafting.sampling)
    by_rule: float | None = 0.0
    overshoot = shuffled = 0.0
    order = torch.randperm(text.logits.shape[-1], generator=torch.Generator().manual_seed(0))
    order = order.to(text.logits.device)
    beta, ratios, keep_by_rule, has_token, allowed = np.zeros((5, positions, depths))
    text_q: list[float | None] = []
    for first in range(0, positions, CHUNK):
        rows = range(first, min(first + CHUNK, positions))
        drafts = drafts_along(text, drafter, drafting, rows)
        for row, (draft, length) in zip(rows, drafts, strict=True):
            if drafting.note is not None:
                drafting.note(row, draft)
            text_q.append(_drafter_probability(draft, text.ids[text.start + row]))
            has_token[row, : len(draft)] = 1.0
            allowed[row, : min(len(draft), length)] = 1.0
            for depth in range(len(draft)):
                position = row + depth
                p, actual = scores.probs[position], text.ids[text.start + position]
                q = draft.distribution(depth, p)
                beta[row, depth] = float(p.minimum(q).sum())
                shuffled += float(p.minimum(q[order]).sum()) if depth == 0 else 0.0
                with calling("verifier", verifier):
                    rates = verifier.accepts(q, scores, position - 1)
                if rates is None:
                    by_rule = None
                elif depth == 0 and by_rule is not None:
                    by_rule += float((q * rates).sum())
                    overshoot += float((q * rates - p).clamp(min=0).sum())
                # The text was written in another pass, so p may be 0 for its token by rounding.
                if p[actual] > 0:
                    ratios[row, depth] = float(q[actual] / p[actual])
                if p[actual] > 0 and rates is not None:
                    share = float(q[actual] * rates[actual] / p[actual])
                    keep_by_rule[row, depth] = min(1.0, share)
    by_depth = (beta, ratios, keep_by_rule, has_token, allowed)
    return DraftTables(*by_depth, by_rule, overshoot, text_q, shuffled)


def kept(tables: DraftTables, verifier: Verifier) -> Floats | None:
    """Returns the probability that each token was drafted and accepted, if those before it were.

    None if the rule can't say.
    """
    if tables.by_rule is not None:
        return tables.keep_by_rule
    with calling("verifier", verifier):
        rates = verifier.accepts_along(torch.from_numpy(tables.ratios))
    return None if rates is None else rates.numpy()


def probability(logits: Float[Tensor, "vocab"], token: int) -> float:
    """Returns the probability of a token at temperature 1."""
    return float((logits[token] - logits.logsumexp(-1)).exp())


def _drafter_probability(draft: Draft, token: int) -> float | None:
    """Returns the probability of `token` as the first of a draft, None if there is no draft."""
    if not draft:
        return None
    logits = draft.logits[0] if draft.logits else None
    return float(draft.tokens[0] == token) if logits is None else probability(logits, token)


def _shifted(column: Floats, gamma: int) -> Floats:
    """Returns the table whose column d holds `column` from entry d on, padded with zeros."""
    padded = np.concatenate([column, np.zeros(gamma)])
    return np.stack([padded[depth : depth + len(column)] for depth in range(gamma)], axis=1)


@final
@dataclass(frozen=True)
class Replay:
    """What decoding a text is expected to count; see `Overlap` for the fields.

    survived, ended: by depth, from 0 to gamma.
    """

    rounds: float
    tested: float
    accepted: float
    survived: Floats
    ended: Floats


def replay(keep: Floats, has_token: Floats, gamma: int, *, longest: int, ended: bool) -> Replay:
    """Returns the expected counts of decoding a text.

    Given the text, where a round starts depends only on the round before. So the probability that a
    round starts at a position follows from those of the positions before it.

    keep: [positions, depths], for a draft that starts at the position and gets to the depth, the
        probability that the text's token there was drafted and accepted.
    has_token: [positions, depths], 1 where the draft has a token at that depth.
    longest: the most tokens of a draft, by the policy; at most gamma.
    ended: whether the text ends with an end token. Only then may a draft hold its last token.
    """
    positions = len(keep)
    starts = np.zeros(positions + gamma + 1)
    starts[0] = 1.0
    rounds = tested = accepted = 0.0
    survivals, ends = np.zeros((2, gamma + 1))
    for position in range(positions):
        alive = float(starts[position])
        rounds += alive
        depth = 0
        left = positions - position - (not ended)
        room = min(longest, left)
        while alive > 0 and depth < room and has_token[position, depth]:
            acceptance = float(keep[position, depth])
            tested += alive
            accepted += alive * acceptance
            starts[position + depth + 1] += alive * (1 - acceptance)
            ends[depth] += alive * (1 - acceptance)
            alive *= acceptance
            survivals[depth] += alive
            depth += 1
        starts[position + depth + 1] += alive
        if depth < left:  # else the draft could have gone on, but for the end of the text
            ends[depth] += alive
    return Replay(rounds, tested, accepted, survivals, ends)
