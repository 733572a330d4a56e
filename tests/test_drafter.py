"""What a drafter does unless it says otherwise."""

from outrider import Context, Drafter, Pen, SampledChance, Sampling, Tokens
from outrider.targets.tabular import TabularTarget


class Counting(Drafter):
    def propose(self, context: Context, pen: Pen) -> None:
        pen.write(len(context.tokens))


def test_a_batch_is_drafted_one_after_another() -> None:
    pens = [
        Pen(sampling=Sampling(), chance=SampledChance.seeded(0), vocab_size=9, gamma=1)
        for _ in range(3)
    ]
    drafter = Counting()
    drafter.bind(TabularTarget(9))
    drafter.propose_batch([(Context(Tokens([0] * (i + 1))), pen) for i, pen in enumerate(pens)])
    assert [pen.finish().tokens for pen in pens] == [(1,), (2,), (3,)]
    assert not drafter.needs
    assert not drafter.trees
