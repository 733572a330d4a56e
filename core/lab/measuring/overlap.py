"""Overlap: alpha by Leviathan's protocol, from p and q at each prefix of the target's text."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.calling import calling
from outrider.contract.chance import SampledChance
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.policy import Fixed, Policy
from outrider.contract.round import ROOT
from outrider.contract.sampling import Sampling
from outrider.contract.sheet import Sheet
from outrider.contract.verifier import Scores, Verifier
from outrider.decoding.calls import call_drafter, depth_of, opened
from outrider.lab.measuring.measurement import Overlap
from outrider.lab.measuring.reference import Drafting, Reference, drafts_along
from outrider.verifiers.ceiling import acceptance_ceiling

Floats = npt.NDArray[np.float64]

CHUNK = 64
"""Prefixes given to a drafter at once; all of their distributions are in memory together."""


def overlap(  # noqa: PLR0913  the options of a run, by name
    text: Reference,
    drafter: Drafter,
    verifier: Verifier,
    sampling: Sampling,
    gamma: int,
    *,
    policy: Policy | None = None,
    budget: int | None = None,
    draft_timeout: float | None = None,
    note: Callable[[int, Draft], None] | None = None,
) -> Overlap:
    """Returns how far the drafter's distributions overlap with the target's along `text`.

    Each draft is made to follow the text. A lossless rule emits token x with probability p(x) in
    all, and with probability q(x) P(accept x) from the draft; for the token rule that is
    min(p, q)(x). So, given the text, its token x was drafted and accepted with probability
    q(x) P(accept x) / p(x). With these weights the mean over texts is exactly the mean over drawn
    drafts, without the noise of drawing.

    For a drafter that writes trees all sums but `ceiling` are 0: a tree has no single token at a
    depth. For one that observes or asks all of them are 0: its drafts depend on earlier rounds,
    and here there are no rounds.

    policy: Defaults to `Fixed()`. It changes what is expected of decoding, not alpha.
    budget: the most nodes of a tree. Defaults to gamma.
    draft_timeout: the most seconds that the drafter may take for a draft; None for no limit.
    note: called with the row of the text at which each draft begins and the draft.
    """
    unopened, drafter = drafter, opened(drafter)
    if drafter.trees or drafter.observes or drafter.asks:
        zeros, ceiling = (0.0,) * gamma, (0.0, 0.0)
        if not (drafter.observes or drafter.asks):
            ceiling = _tree_ceiling(text, drafter, sampling, gamma, budget)
        return Overlap(zeros, zeros, zeros, zeros, zeros, zeros, None, ceiling)
    policy = Fixed() if policy is None else copy.deepcopy(policy)
    slides = drafter.autoregressive and (isinstance(policy, Fixed) or policy.learns)
    drafting = Drafting(sampling, policy, 1 if slides else gamma, draft_timeout)
    tables = _draft_tables(text, drafter, verifier, replace(drafting, note=note))
    control = (tables.shuffled, float(len(text.logits)))
    if drafter.needs & text.features.keys():
        behind = text.one_behind(CHUNK)
        states = _draft_tables(behind, opened(unopened), verifier, replace(drafting, depths=1))
        control = (float(states.beta.sum()), float(len(states.beta)))
    if slides:
        tables = tables.shifted(gamma)
    positions = len(text.logits)
    by_token = tables.ratios.clip(max=1)  # how likely the token rule keeps each token
    reach = np.concatenate([np.ones((positions, 1)), by_token[:, :-1].cumprod(1)], axis=1)
    keep = _kept(tables, verifier) if verifier.lossless and not policy.learns else None
    rounds, tested, accepted, survived, ended = zip(
        *(
            _replay(keep, tables.allowed, length, depth_of(policy, length), ended=text.ended)
            if keep is not None
            else (0.0, 0.0, 0.0, *np.zeros((2, length + 1)))
            for length in range(1, gamma + 1)
        ),
        strict=True,
    )
    return Overlap(
        prefixes=tuple(float(max(0, positions - depth)) for depth in range(gamma)),
        reached=tuple((reach * tables.has_token).sum(0).tolist()),
        beta=tuple((reach * tables.beta).sum(0).tolist()),
        rounds=rounds,
        tested=tested,
        accepted=accepted,
        by_rule=tables.by_rule,
        # The ceiling of a single draft token is sum_x min(p, q); a prefix without a draft counts 0.
        ceiling=(float(tables.beta[:, 0].sum()), float(positions)),
        survived=tuple(np.concatenate(survived).tolist()),
        ended=tuple(np.concatenate(ended).tolist()),
        text=tuple(text.ids[text.start :]),
        text_p=tuple(map(_probability, text.logits, text.ids[text.start :])),
        text_q=tuple(tables.text_q),
        overshoot=None if verifier.lossless or tables.by_rule is None else tables.overshoot,
        control=control,
    )


def _tree_ceiling(
    text: Reference, drafter: Drafter, sampling: Sampling, gamma: int, budget: int | None
) -> tuple[float, float]:
    """Returns the ceiling of the first tokens of trees, summed over prefixes, and their number."""
    probs = Scores(text.logits, sampling).probs
    total = count = 0.0
    for row, p in enumerate(probs):
        pen = Pen(
            Sheet(
                sampling=sampling,
                chance=SampledChance.seeded((sampling.seed or 0) + row),
                vocab_size=text.logits.shape[-1],
                gamma=gamma,
                budget=budget,
            )
        )
        call_drafter(drafter, [(text.before(row), pen)])
        draft = pen.sheet.finish()
        ceiling = acceptance_ceiling(draft, ROOT, p, drafter.kind) if draft else 0.0
        if ceiling is not None:
            total, count = total + ceiling, count + 1
    return total, count


@final
@dataclass(frozen=True)
class _DraftTables:
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

    def shifted(self, gamma: int) -> "_DraftTables":
        """Returns the tables up to depth `gamma`, from their first column.

        The token at depth d of an autoregressive drafter has the distribution of the first token
        of a draft that starts d - 1 positions later.
        """
        by_depth = ("beta", "ratios", "keep_by_rule", "has_token", "allowed")
        columns = {name: np.pad(getattr(self, name)[:, 0], (0, gamma)) for name in by_depth}
        tables: dict[str, Any] = {
            name: np.stack([it[depth : depth + len(self.beta)] for depth in range(gamma)], axis=1)
            for name, it in columns.items()
        }
        return replace(self, **tables)


def _draft_tables(
    text: Reference, drafter: Drafter, verifier: Verifier, drafting: Drafting
) -> _DraftTables:
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
    return _DraftTables(*by_depth, by_rule, overshoot, text_q, shuffled)


def _kept(tables: _DraftTables, verifier: Verifier) -> Floats | None:
    """Returns the probability that each token was drafted and accepted, if those before it were.

    None if the rule can't say.
    """
    if tables.by_rule is not None:
        return tables.keep_by_rule
    with calling("verifier", verifier):
        rates = verifier.accepts_along(torch.from_numpy(tables.ratios))
    return None if rates is None else rates.numpy()


def _probability(logits: Float[Tensor, "vocab"], token: int) -> float:
    """Returns the probability of a token at temperature 1."""
    return float((logits[token] - logits.logsumexp(-1)).exp())


def _drafter_probability(draft: Draft, token: int) -> float | None:
    """Returns the probability of `token` as the first of a draft, None if there is no draft."""
    if not draft:
        return None
    logits = draft.logits[0] if draft.logits else None
    return float(draft.tokens[0] == token) if logits is None else _probability(logits, token)


def _replay(
    keep: Floats, has_token: Floats, gamma: int, longest: int, *, ended: bool
) -> tuple[float, float, float, Floats, Floats]:
    """Returns the rounds, the tested and the accepted tokens that decoding a text is to count.

    With them come how many drafts survive and end by depth, from 0 to gamma; see `Overlap`.
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
    return rounds, tested, accepted, survivals, ends
