"""Overlap: alpha by Leviathan's protocol, from p and q at each prefix of the target's text."""

import copy
from collections.abc import Callable
from dataclasses import replace

import numpy as np

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
from outrider.lab.measuring.draft_tables import (
    CHUNK,
    Replay,
    draft_tables,
    kept,
    probability,
    replay,
)
from outrider.lab.measuring.measurement import Overlap
from outrider.lab.measuring.reference import Drafting, Reference
from outrider.verifiers.ceiling import acceptance_ceiling


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
    tables = draft_tables(text, drafter, verifier, replace(drafting, note=note))
    control = (tables.shuffled, float(len(text.logits)))
    if drafter.needs & text.features.keys():
        behind = text.one_behind(CHUNK)
        states = draft_tables(behind, opened(unopened), verifier, replace(drafting, depths=1))
        control = (float(states.beta.sum()), float(len(states.beta)))
    if slides:
        tables = tables.shifted(gamma)
    positions = len(text.logits)
    by_token = tables.ratios.clip(max=1)  # how likely the token rule keeps each token
    reach = np.concatenate([np.ones((positions, 1)), by_token[:, :-1].cumprod(1)], axis=1)
    keep = kept(tables, verifier) if verifier.lossless and not policy.learns else None
    replays = [
        replay(
            keep, tables.allowed, depth + 1, longest=depth_of(policy, depth + 1), ended=text.ended
        )
        if keep is not None
        else Replay(0.0, 0.0, 0.0, *np.zeros((2, depth + 2)))
        for depth in range(gamma)
    ]
    return Overlap(
        prefixes=tuple(float(max(0, positions - depth)) for depth in range(gamma)),
        reached=tuple((reach * tables.has_token).sum(0).tolist()),
        beta=tuple((reach * tables.beta).sum(0).tolist()),
        rounds=tuple(counts.rounds for counts in replays),
        tested=tuple(counts.tested for counts in replays),
        accepted=tuple(counts.accepted for counts in replays),
        by_rule=tables.by_rule,
        # The ceiling of a single draft token is sum_x min(p, q); a prefix without a draft counts 0.
        ceiling=(float(tables.beta[:, 0].sum()), float(positions)),
        survived=tuple(np.concatenate([counts.survived for counts in replays]).tolist()),
        ended=tuple(np.concatenate([counts.ended for counts in replays]).tolist()),
        text=tuple(text.ids[text.start :]),
        text_p=tuple(map(probability, text.logits, text.ids[text.start :])),
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
