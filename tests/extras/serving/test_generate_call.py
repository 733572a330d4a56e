"""The processors that `Sampling` replaces are taken off the list, and no others."""

from typing import Any

import pytest
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    NoRepeatNGramLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from outrider import Sampling
from outrider.extras.serving.generate_call import unwarped

NO_REPEAT = NoRepeatNGramLogitsProcessor(2)
TEMPERATURE = TemperatureLogitsWarper(0.7)
TOP_K = TopKLogitsWarper(3)
TOP_P = TopPLogitsWarper(0.8)
MIN_P = MinPLogitsWarper(0.1)
TYPICAL = TypicalLogitsWarper(0.5)


@pytest.mark.parametrize(
    ("processors", "left", "sampling"),
    [
        ([], [], Sampling(1.0)),
        ([NO_REPEAT], [NO_REPEAT], Sampling(1.0)),
        ([NO_REPEAT, TEMPERATURE, TOP_K, TOP_P, MIN_P], [NO_REPEAT], Sampling(0.7, 3, 0.8, 0.1)),
        ([TEMPERATURE, TOP_P], [], Sampling(0.7, top_p=0.8)),
        ([TEMPERATURE, TEMPERATURE, MIN_P], [TEMPERATURE], Sampling(0.7, min_p=0.1)),
        ([TOP_P, TOP_K], [TOP_P], Sampling(1.0, 3)),
        ([TEMPERATURE, TYPICAL], [TEMPERATURE, TYPICAL], Sampling(1.0)),
        ([TEMPERATURE, TYPICAL, TOP_K], [TEMPERATURE, TYPICAL], Sampling(1.0, 3)),
        ([TopKLogitsWarper(1, min_tokens_to_keep=2)], None, Sampling(1.0, 2)),
        ([TopPLogitsWarper(0.1, min_tokens_to_keep=2)], None, Sampling(1.0)),
        ([TopKLogitsWarper(3, filter_value=-9.0)], None, Sampling(1.0)),
    ],
)
def test_sampling_and_the_rest_make_the_same_distribution(
    processors: list[Any], left: list[Any] | None, sampling: Sampling
) -> None:
    rest, taken = unwarped(LogitsProcessorList(processors), sample=True)
    assert left is None or list(rest) == left
    text = torch.tensor([[1, 2, 3, 1]])
    logits = torch.randn(1, 8, generator=torch.Generator().manual_seed(1))
    whole = LogitsProcessorList(processors)(text, logits.clone()).softmax(-1)
    torch.testing.assert_close(taken.probs(rest(text, logits.clone())), whole)
    if left is not None:
        assert taken == sampling


def test_greedy_texts_keep_their_processors() -> None:
    rest, taken = unwarped(LogitsProcessorList([NO_REPEAT, TEMPERATURE]), sample=False)
    assert list(rest) == [NO_REPEAT, TEMPERATURE]
    assert taken == Sampling()
