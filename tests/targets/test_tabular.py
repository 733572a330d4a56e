"""Every conditional of a table is known."""

import pytest
import torch

from outrider import ConfigError, Draft, Verdict
from outrider.targets.tabular import TabularTarget


def test_the_distribution_is_the_row_of_the_last_tokens() -> None:
    probs = torch.rand(9, 3).double()
    probs /= probs.sum(-1, keepdim=True)
    target = TabularTarget.of(probs, order=2)
    for a in range(3):
        for b in range(3):
            logits = target.open([2, a, b]).score(Draft())[0]
            torch.testing.assert_close(logits.softmax(-1), probs[3 * a + b])


def test_each_node_of_a_draft_is_scored_after_its_path() -> None:
    target = TabularTarget(5)
    draft = Draft((1, 2, 3), (-1, -1, 1), (None,) * 3)
    session = target.open([0])
    rows = session.score(draft)
    for row, text in enumerate(([0], [0, 1], [0, 2], [0, 2, 3])):
        assert torch.equal(rows[row], target.logits(text))
    session.commit(Verdict((1, 2), 4))
    assert torch.equal(session.score(Draft())[0], target.logits([0, 2, 3, 4]))


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"target.vocab_size=0"):
        TabularTarget(0)
    with pytest.raises(ConfigError, match=r"target.order=-1"):
        TabularTarget(3, -1)
    with pytest.raises(ConfigError, match="expected 9 rows"):
        TabularTarget.of(torch.rand(3, 3), order=2)
