"""The text of the truncation sampler is that of a truncated target, whatever the drafter."""

import pytest

from outrider import Sampling
from outrider.targets.tabular import TabularTarget
from outrider.testing.exact import Setup, loop_distribution
from outrider.testing.table_drafters import CHAINS, ChainDrafter
from outrider.verifiers.typical import Truncation

SAMPLED = Sampling(temperature=1.0)


@pytest.mark.parametrize("kind", CHAINS)
def test_texts_are_those_of_the_truncated_target(kind: str) -> None:
    target = TabularTarget(3, seed=2)
    rule = Truncation(epsilon=0.3, delta=0.9)
    setup = Setup(target, ChainDrafter(target, kind), rule, [0, 2], gamma=2, sampling=SAMPLED)
    texts = loop_distribution(setup, 3)

    def expected(text: tuple[int, ...]) -> float:
        probability, before = 1.0, [0, 2]
        for token in text:
            p = SAMPLED.probs(target.logits(before)).double()
            entropy = -float((p * p.log()).sum())
            threshold = min(0.3, 0.9 * 2.718281828459045**-entropy)
            kept = [float(x) if x > threshold or x == p.max() else 0.0 for x in p]
            probability *= kept[token] / sum(kept)
            before.append(token)
        return probability

    for text, mass in texts.items():
        assert mass == pytest.approx(expected(text), abs=1e-12)
    assert sum(texts.values()) == pytest.approx(1, abs=1e-12)
