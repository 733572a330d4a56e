"""What the loop's sampling stands for is taken off the processors, and nothing else."""

from typing import Any

import pytest
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    NoRepeatNGramLogitsProcessor,
    SynthIDTextWatermarkLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from outrider import ConfigError, Sampling
from outrider.serving.row import unwarped

NGRAM, WARM, SOME = (
    NoRepeatNGramLogitsProcessor(2),
    TemperatureLogitsWarper(0.7),
    TopKLogitsWarper(3),
)
MASS, LEAST, TYPICAL = TopPLogitsWarper(0.8), MinPLogitsWarper(0.1), TypicalLogitsWarper(0.5)


@pytest.mark.parametrize(
    ("processors", "left", "sampling"),
    [
        ([], [], Sampling(1.0)),
        ([NGRAM], [NGRAM], Sampling(1.0)),
        ([NGRAM, WARM, SOME, MASS, LEAST], [NGRAM], Sampling(0.7, 3, 0.8, 0.1)),
        ([WARM, MASS], [], Sampling(0.7, top_p=0.8)),
        ([WARM, WARM, LEAST], [WARM], Sampling(0.7, min_p=0.1)),
        ([MASS, SOME], [MASS], Sampling(1.0, 3)),
        ([WARM, TYPICAL], [WARM, TYPICAL], Sampling(1.0)),
        ([WARM, TYPICAL, SOME], [WARM, TYPICAL], Sampling(1.0, 3)),
        ([TopKLogitsWarper(1, min_tokens_to_keep=2)], None, Sampling(1.0, 2)),
        ([TopPLogitsWarper(0.1, min_tokens_to_keep=2)], None, Sampling(1.0)),
        ([TopKLogitsWarper(3, filter_value=-9.0)], None, Sampling(1.0)),
    ],
)
def test_sampling_and_the_rest_make_the_same_distribution(
    processors: list[Any], left: list[Any] | None, sampling: Sampling
) -> None:
    rest, found = unwarped(LogitsProcessorList(processors), sample=True)
    assert left is None or list(rest) == left
    text = torch.tensor([[1, 2, 3, 1]])
    logits = torch.randn(1, 8, generator=torch.Generator().manual_seed(1))
    whole = LogitsProcessorList(processors)(text, logits.clone()).softmax(-1)
    torch.testing.assert_close(found.distribution(rest(text, logits.clone())), whole)
    if left is not None:
        assert found == sampling


def test_greedy_texts_keep_their_processors() -> None:
    rest, found = unwarped(LogitsProcessorList([NGRAM, WARM]), sample=False)
    assert list(rest) == [NGRAM, WARM]
    assert found == Sampling()


def test_a_processor_with_a_state_is_refused() -> None:
    synth = SynthIDTextWatermarkLogitsProcessor(3, [1, 2], 64, 0, 4, torch.device("cpu"))
    line = "^logits processor SynthID.*: expected one that depends on the text alone"
    with pytest.raises(ConfigError, match=line):
        unwarped(LogitsProcessorList([synth]), sample=True)
