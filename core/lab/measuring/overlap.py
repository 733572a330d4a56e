"""Overlap: alpha by Leviathan's protocol, from p and q at each prefix of the target's text."""

import copy
from dataclasses import dataclass
from typing import final

import numpy as np

from outrider.base.bounds import Finite, Whole
from outrider.contract.chance import SampledChance
from outrider.contract.draft import ROOT
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.policy import Fixed, Policy
from outrider.contract.sampling import Sampling
from outrider.contract.sheet import Sheet
from outrider.contract.verifier import Scores, Verifier
from outrider.decoding.calls import call_drafter, depth_of, opened
from outrider.lab.measuring.draft_tables import draft_tables, kept, probability
from outrider.lab.measuring.reference import Drafting, Reference
from outrider.lab.measuring.replay import Replay, replay
from outrider.verifiers.ceiling import acceptance_ceiling


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
        gamma, and of those that end there; see `lab.statistics.profile.ends_by_depth`. First come
        the depths at gamma 1, then those at gamma 2, and so on; see `measuring.replay.at_gamma`.
        Empty in runs of earlier versions.
    by_rule: the sum over prefixes of sum_x q(x) P(accept x) under the run's acceptance rule; None
        if the rule decides over several tokens together.
    overshoot: the sum over prefixes of sum_x max(0, q(x) P(accept x) - p(x)), by how much the rule
        accepts tokens beyond what the target would write (2607.26627). None for a lossless rule,
        where `by_rule` is None, and in runs of earlier versions.
    ceiling: the sum over prefixes of the best acceptance that any lossless rule can reach at the
        first node of a draft, and the number of these prefixes: all but those whose ceiling has no
        short formula. See `outrider.verifiers.ceiling`.
    text, text_p, text_q: the text's tokens, and the probability of each to the target and to the
        drafter before the run's sampling (1 or 0 for a token that was written, None where there was
        no draft). Empty in runs of earlier versions, and for trees.
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
    """
    drafter = opened(drafter)
    if drafter.trees or drafter.observes or drafter.asks:
        zeros, ceiling = (0.0,) * gamma, (0.0, 0.0)
        if not (drafter.observes or drafter.asks):
            ceiling = _tree_ceiling(text, drafter, sampling, gamma, budget)
        return Overlap(zeros, zeros, zeros, zeros, zeros, zeros, None, ceiling)
    policy = Fixed() if policy is None else copy.deepcopy(policy)
    slides = drafter.autoregressive and (isinstance(policy, Fixed) or policy.learns)
    drafting = Drafting(sampling, policy, 1 if slides else gamma, draft_timeout)
    tables = draft_tables(text, drafter, verifier, drafting)
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
        else Replay.nothing(depth + 1)
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
