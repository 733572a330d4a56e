"""Facts about draws: the distributions of a sampling, and that chance draws what it is told to."""

import torch

from outrider.contract.chance import DRAFTER, TARGET, Chance, EnumeratedChance, SampledChance
from outrider.contract.sampling import Sampling
from outrider.testing.chi_square import assert_sampled
from outrider.testing.exact import Text, distribution_of
from outrider.testing.facts import assert_close, assert_is
from outrider.testing.stage import SAMPLED

P = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
Q = torch.tensor([0.1, 0.3, 0.6], dtype=torch.float64)
RATES = torch.tensor([0.25, 0.6, 0.9], dtype=torch.float64)
TEXTS = 400
"""How many texts are sampled of each kind."""


def assert_sampling() -> None:
    """Asserts that a sampling gives the distributions worked out by hand, row by row."""
    probs = [0.4, 0.3, 0.2, 0.1]
    for sampling, weights in (
        (SAMPLED, probs),
        (Sampling(), [1, 0, 0, 0]),
        (Sampling(temperature=0.5), [0.16, 0.09, 0.04, 0.01]),
        (Sampling(temperature=1.0, top_k=2), [0.4, 0.3, 0, 0]),
        (Sampling(temperature=1.0, top_k=9), probs),
        (Sampling(temperature=1.0, top_p=0.6), [0.4, 0.3, 0, 0]),
        (Sampling(temperature=1.0, top_p=0.05), [1, 0, 0, 0]),
        (Sampling(temperature=1.0, min_p=0.4), [0.4, 0.3, 0.2, 0]),
    ):
        logits = torch.tensor([probs, probs[::-1]], dtype=torch.float64).log()
        rows = sampling.probs(logits).tolist()
        for row, expected in zip(rows, (weights, weights[::-1]), strict=True):
            for token, weight in enumerate(expected):
                what = f"the probability of token {token} under {sampling}"
                assert_close(what, row[token], weight / sum(weights))
    tied = torch.tensor([2.0, 2.0, 2.0, 1.0])
    kept = Sampling(temperature=1.0, top_k=2).probs(tied) > 0
    assert_is("top-k where tokens tie", kept.tolist(), [True, True, True, False])
    assert_is("the greedy token where tokens tie", Sampling().probs(tied).tolist(), [1, 0, 0, 0])


def assert_enumerated() -> None:
    """Asserts that enumeration has the probabilities worked out by hand."""
    coins = distribution_of(_coins)
    for flips in ((a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)):
        p = 1.0
        for flip, rate in zip(flips, RATES.tolist(), strict=True):
            p *= rate if flip else 1 - rate
        assert_close(f"the probability of coins {flips}", coins[flips], p)
    certain = list(EnumeratedChance.outcomes(lambda c: c.coins(torch.tensor([3.0, 0.0]))))
    assert_is("coins of 3 and 0", certain, [(1.0, [True, False])])
    races = distribution_of(_races)
    assert_close("the sum over all races", sum(races.values()), 1.0)
    for token, p in enumerate(P.tolist()):
        agreed = sum(races[token, token, other] for other in range(len(P)))
        expected = 1 / float(torch.maximum(P / p, Q / Q[token]).sum())  # 2408.07978
        assert_close(f"how often both races give token {token}", agreed, expected)
        alone = sum(q for text, q in races.items() if text[2] == token)
        assert_close(f"how often a race gives token {token}", alone, p)
    two = torch.tensor([0.0, 0.4, 0.6], dtype=torch.float64)
    winners = distribution_of(lambda chance: (chance.race(two, 0),))
    assert_is("the winners of a race without token 0", sorted(winners), [(1,), (2,)])


def assert_sampled_as_enumerated() -> None:
    """Asserts that sampled decisions have the enumerated distribution, seed by seed and text by
    text; each decision is independent of the others.
    """
    for play in (_coins, _tokens, _races):
        exact = distribution_of(play)
        for chances in (
            (SampledChance.seeded(seed) for seed in range(TEXTS)),
            (SampledChance.seeded(0, number) for number in range(TEXTS)),
        ):
            assert_sampled(map(play, chances), exact)


def assert_cut() -> None:
    """Asserts that tokens are drawn in double precision: the number that divides two of them does
    not move with the scale of their probabilities.
    """
    cuts = [_cut(SampledChance.seeded(seed), scale) for seed in (0, 1) for scale in (1.0, 3.0)]
    for one, other in (cuts[:2], cuts[2:]):
        assert_close("the number that divides two tokens", other, one)


def _cut(chance: SampledChance, scale: float) -> float:
    """Returns the largest probability of token 0 at which the first draw still gives token 1."""
    low, high = 0.0, 1.0
    while high - low > 1e-13:
        middle = (low + high) / 2
        probs = scale * torch.tensor([middle, 1 - middle], dtype=torch.float64)
        drawn = chance.named(TARGET).categorical(probs)
        low, high = (middle, high) if drawn else (low, middle)
    return low


def _coins(chance: Chance) -> Text:
    return tuple(int(coin) for coin in chance.coins(RATES))


def _tokens(chance: Chance) -> Text:
    tokens = [part.categorical(P) for part in (chance, chance.named(DRAFTER), chance.named(TARGET))]
    return (*tokens, int(chance.coins(RATES[:1])[0]))


def _races(chance: Chance) -> Text:
    return (chance.race(P, 3), chance.race(Q, 3), chance.race(P, 4))
