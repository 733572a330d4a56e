"""Every conditional of a table is known."""

import pytest
import torch

from outrider import ConfigError, Draft
from outrider.targets.tabular import TabularTarget


def test_the_distribution_is_the_row_of_the_last_tokens() -> None:
    probs = torch.rand(9, 3).double()
    probs /= probs.sum(-1, keepdim=True)
    target = TabularTarget.of(probs, order=2)
    for a in range(3):
        for b in range(3):
            logits = target.open([2, a, b]).score(Draft())[0]
            torch.testing.assert_close(logits.softmax(-1), probs[3 * a + b])


def test_a_table_of_another_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected 9 rows"):
        TabularTarget.of(torch.rand(3, 3), order=2)
