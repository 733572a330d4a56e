"""How drafts are drawn, which all texts rest on: by the sampling of the run, and of a kind."""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

import torch

from outrider.base.errors import DrafterError
from outrider.contract.chance import Chance, SampledChance, located, token_at
from outrider.contract.context import Context, Tokens
from outrider.contract.draft import Draft
from outrider.contract.pen import Pen
from outrider.contract.sampling import Sampling
from outrider.contract.sheet import Sheet
from outrider.decoding.kinds import violation
from outrider.targets.tabular import TabularTarget
from outrider.testing.enumerated import EnumeratedChance
from outrider.testing.table_drafters import TREES, ChainDrafter, TreeDrafter
from outrider.testing.tiny_targets import SAMPLED, draft_on

TOLERANCE = 1e-9
SAMPLINGS = (
    Sampling(),
    Sampling(temperature=0.7, top_k=2),
    Sampling(temperature=1.3, top_p=0.8),
    Sampling(temperature=1.0, min_p=0.3),
    Sampling(temperature=0.9, top_k=3, top_p=0.7, min_p=0.4),
)
LOGITS = (
    torch.tensor([0.4, -0.3, 1.1, 0.9, -2.0], dtype=torch.float64),
    torch.tensor([0.0, 1.0, 1.0, -torch.inf], dtype=torch.float64),
    torch.linspace(0, 60, 600, dtype=torch.float64).sin() * 9,
)
"""Of a few tokens, with ties, and of so many that top-p need not sort them all."""
KINDS = {
    "paths": {"paths", "iid"},
    "iid": {"iid"},
    "distinct": {"distinct"},
    "deterministic": {"deterministic", "distinct"},
    "chain": {"chain", "paths", "iid", "distinct"},
}
"""By what a drafter writes, the kinds that it may declare."""
NO_LOGITS = torch.zeros(4), *torch.tensor([[0, math.nan, 1], [0, math.inf, 1], [-math.inf] * 3])
"""What describes no distribution of three tokens."""


def check_drafts_are_drawn_as_they_are_recorded(_: object) -> None:
    """A pen draws, and records, the distribution that temperature, top-k, top-p and min-p make of
    logits; so does the target. It refuses logits of no distribution, and a draft that is of
    another kind than declared is told from one that is not.
    """
    all_drawn()


@cache
def all_drawn() -> None:
    """Raises AssertionError unless they are; it looks once in a process."""
    for sampling, logits in itertools.product(SAMPLINGS, LOGITS):
        _assert_drawn(sampling, logits)
    for logits in NO_LOGITS:
        sheet = Sheet(sampling=SAMPLED, chance=SampledChance.seeded(0), vocab_size=3, gamma=1)
        with suppress(DrafterError):
            raise AssertionError(f"the pen draws {Pen(sheet).draw(logits)} from {logits.tolist()}")
    long = Sampling(temperature=1.0).exact(LOGITS[-1])
    ends = long.cumsum(0)
    for token, (end, width) in enumerate(zip(ends.tolist(), long.tolist(), strict=True)):
        for draw in (token_at, located):
            found = int(draw(long, end - width / 2))
            assert found == token, f"a number within the share of token {token} draws {found}"
    for written, declared in itertools.product(KINDS, KINDS):
        is_right = all(violation(draft, declared) is None for draft in _drafts(written))
        expected = declared in KINDS[written]
        assert is_right == expected, f"a draft of kind {written} may be declared as {declared}"
    equal, other = torch.ones(3) / 3, torch.eye(3)[1]
    for last in (None, other):
        probs = (equal, equal, equal, last)
        paths = Draft((0, 0, 1, 1), (-1, -1, 0, 1), probs, (), (0, 0, 2, 3))
        assert violation(paths, "paths"), "equal paths may go on with different distributions"


def _drafts(kind: str) -> list[Draft]:
    target = TabularTarget(3)
    drafter = TreeDrafter(target, kind) if kind in TREES else ChainDrafter(target, "drawn")
    drafts = []
    for seed in range(6):
        sheet = Sheet(
            sampling=SAMPLED, chance=SampledChance.seeded(seed), vocab_size=3, gamma=2, budget=6
        )
        drafts.append(draft_on(sheet, drafter, Context(Tokens([0, 1]))))
    return drafts


def _assert_drawn(sampling: Sampling, logits: torch.Tensor) -> None:
    """Raises AssertionError unless a token is drawn as a plain computation says."""
    expected = plainly_sampled(logits.tolist(), sampling)

    def play(chance: Chance) -> tuple[int, list[float] | None]:
        sheet = Sheet(sampling=sampling, chance=chance, vocab_size=len(logits), gamma=1)
        (token,) = Pen(sheet).chain(logits, lambda _: logits)
        (recorded,) = sheet.finish().probs
        return token, None if recorded is None else recorded.tolist()

    drawn = defaultdict[int, float](float)
    for p, (token, recorded) in EnumeratedChance.outcomes(play):
        drawn[token] += p
        assert sampling.greedy or recorded is not None, "a token that was drawn has no distribution"
        _assert_near(recorded or expected, expected, f"a token is recorded otherwise, {sampling}")
    of_target = sampling.probs(logits).tolist()
    _assert_near(of_target, expected, f"the target's distribution is another one, {sampling}")
    tokens = [drawn[token] for token in range(len(logits))]
    _assert_near(tokens, expected, f"a token is drawn otherwise, {sampling}")


def _assert_near(probs: Sequence[float], expected: Sequence[float], what: str) -> None:
    gap = max(abs(p - q) for p, q in zip(probs, expected, strict=True))
    assert gap <= TOLERANCE, f"{what}: off by {gap:.1e}"


def plainly_sampled(logits: Sequence[float], sampling: Sampling) -> list[float]:
    """Returns the distribution of a token, computed one number after the other."""
    best = max(logits)
    if sampling.greedy:
        return [float(token == logits.index(best)) for token in range(len(logits))]
    weights = [math.exp((x - best) / sampling.temperature) for x in logits]
    if sampling.top_k:
        least = sorted(weights)[-sampling.top_k :][0]
        weights = [weight * (weight >= least) for weight in weights]
    falling = sorted(range(len(weights)), key=lambda token: (-weights[token], -token))
    kept, total = set[int](), 0.0
    for token in falling:
        if total < sampling.top_p * math.fsum(weights):
            kept.add(token)
            total += weights[token]
    weights = [weight * (token in kept) for token, weight in enumerate(weights)]
    weights = [weight * (weight >= sampling.min_p * max(weights)) for weight in weights]
    return [weight / math.fsum(weights) for weight in weights]


CHECKS = (check_drafts_are_drawn_as_they_are_recorded,)
