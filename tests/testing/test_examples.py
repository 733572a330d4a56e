"""The examples of a part are played, and one that is wrong is told in a line."""

from typing import Any

import pytest

from outrider import Context, Drafter, DrafterExample, Pen, Policy, PolicyExample, VerifierExample
from outrider.drafters.random import Random
from outrider.testing import examples
from outrider.verifiers.sample_match import SampleMatch


class Repeats(Drafter):
    """Writes the last token again."""

    def propose(self, context: Context, pen: Pen) -> None:
        while pen.open:
            pen.write(context.tokens[-1])


class Half(Policy):
    def depth(self, gamma: int) -> int:
        return gamma // 2


def says(part: Any, **fields: Any) -> Any:
    """Returns a subclass of a part that gives one example."""
    kind: Any = VerifierExample
    if issubclass(part, Drafter | Policy):
        kind = DrafterExample if issubclass(part, Drafter) else PolicyExample
    return type(part.__name__, (part,), {"examples": (kind(**fields),)})


OF_DRAFTS, OF_VERDICTS, OF_LENGTHS = (
    examples.check_its_examples_of_drafts_hold,
    examples.check_its_examples_of_verdicts_hold,
    examples.check_its_examples_of_lengths_hold,
)

RULE = {"p": (0.3, 0.7), "q": (0.6, 0.4)}


def test_examples_that_hold_pass() -> None:
    OF_DRAFTS(says(Repeats, text=(1, 2), draft=(2, 2), gamma=2))
    OF_VERDICTS(says(SampleMatch, **RULE, accepted=0.46))
    OF_LENGTHS(says(Half, rounds=((3, 2), (3, 0)), gamma=6))


class NeedsAModel(Repeats):
    needs = frozenset({"model"})


@pytest.mark.parametrize(
    ("check", "part", "line"),
    [
        (OF_DRAFTS, says(Repeats, text=(1, 2), gamma=2, draft=(3, 1)),
         r"after \(1, 2\) it wrote \(2, 2\), the example says \(3, 1\)"),
        (OF_DRAFTS, says(Repeats, text=(1, 2), gamma=2, draft=(2, 2), parents=(-1, -1)),
         r"wrote \(2, 2\) with the parents \(-1, 0\), the example says \(-1, -1\)"),
        (OF_DRAFTS, says(Random, text=(1,), draft=(2, 0), probs=(0.5, 0.5), gamma=2, vocab_size=4),
         r"token 1 with probability 0\.250000, the example says 0\.500000"),
        (OF_DRAFTS, says(NeedsAModel, text=(1,), draft=(1,), gamma=1),
         "the target of an example offers no model"),
        (OF_VERDICTS, says(SampleMatch, **RULE, accepted=0.5),
         r"it accepts 0\.460000 tokens, the example says 0\.500000"),
        (OF_VERDICTS, says(SampleMatch, **RULE, text=(0.5, 0.5)),
         r"token 0 has probability 0\.300000, the example says 0\.500000"),
        (OF_LENGTHS, says(Half, rounds=((3, 2), (4, 0)), gamma=6),
         r"in round 2 its draft has 3 tokens, the example says 4"),
    ],
)  # fmt: skip
def test_an_example_that_differs_fails_in_a_line(check: Any, part: Any, line: str) -> None:
    with pytest.raises(AssertionError, match=line):
        check(part)
