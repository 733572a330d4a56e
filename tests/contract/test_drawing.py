"""What a pen takes, and the distribution that it records."""

import pytest
import torch

from outrider import DrafterError, Sampling
from outrider.contract.drawing import checked_logits, checked_token, exact_distribution


def test_logits_describe_a_distribution_over_the_vocabulary() -> None:
    logits = torch.tensor([0.0, float("-inf"), 1.0])
    assert checked_logits(logits, 3) is logits
    for wrong, line in (
        (logits[:2], "gave logits of shape (2,): expected (3,)"),
        (torch.full((3,), float("-inf")), "gave logits with NaN, infinity or no finite entry"),
        (torch.tensor([0.0, float("nan"), 1.0]), "gave logits with NaN, infinity or no"),
        (torch.tensor([0.0, float("inf"), 1.0]), "gave logits with NaN, infinity or no"),
    ):
        with pytest.raises(DrafterError) as caught:
            checked_logits(wrong, 3)
        assert str(caught.value).startswith(line)


def test_a_token_is_of_the_vocabulary() -> None:
    assert checked_token(2, 3) == 2
    for token in (-1, 3):
        with pytest.raises(DrafterError, match=f"wrote id {token}: the vocabulary has 3 tokens"):
            checked_token(token, 3)


def test_a_distribution_is_recorded_in_double_precision() -> None:
    probs = exact_distribution(Sampling(2.0), torch.tensor([0.3, 0.1, -0.5]))
    assert probs.dtype == torch.float64 and float(probs.sum()) == pytest.approx(1, abs=1e-15)
    expected = (torch.tensor([0.3, 0.1, -0.5]) / 2).softmax(-1).double()
    torch.testing.assert_close(probs, expected)
