"""The target in eight bits drafts nearly what the target says, and leaves its text alone."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from outrider import Sampling, decode
from outrider.drafters.none import NoDraft
from outrider.drafters.quantized import Quantized
from outrider.drafters.small_lm import SmallLM
from outrider.runtime.first_layers import first_layers
from outrider.runtime.quantized import quantized
from outrider.targets.transformers import TransformersTarget
from outrider.testing import parametrize_with_checks
from outrider.verifiers.token import Token

TEXT = [3, 4, 5, 6, 7, 8]


def written(target: Any, drafter: Any, **options: Any) -> list[Any]:
    return list(decode(target, drafter, Token(), TEXT, max_new_tokens=24, **options))


@parametrize_with_checks([Quantized])
def test_conformance(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make)


def test_nearly_all_is_accepted_and_the_text_is_the_target_s(llama: Any) -> None:
    target = TransformersTarget(llama(), optimize="packed")
    plain = written(target, NoDraft())
    rounds = written(target, Quantized(), gamma=4)
    tokens = [token for round in rounds for token in round.tokens]
    assert tokens == [token for round in plain for token in round.tokens]
    assert len(rounds) < len(plain) / 2


@pytest.mark.parametrize("layers", [None, 2])
def test_it_drafts_from_the_rounded_weights(llama: Any, layers: int | None) -> None:
    target = TransformersTarget(llama())
    model = first_layers(target.model, layers) if layers else target.model
    sampling = Sampling(temperature=1.0)
    drafts = [
        [round.draft for round in written(target, drafter, gamma=3, sampling=sampling)]
        for drafter in (Quantized(layers=layers), SmallLM(quantized(model, "drafter quantized")))
    ]
    assert drafts[0] == drafts[1]


def test_the_target_keeps_its_weights(llama: Any) -> None:
    model = llama()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    written(TransformersTarget(model), Quantized(), gamma=2)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
