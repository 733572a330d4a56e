"""The target in eight bits drafts nearly what the target says, and leaves its text alone."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tiny.drafters import tokens_of

from outrider import Sampling, decode
from outrider.drafters.none import NoDraft
from outrider.drafters.small_lm import SmallLM
from outrider.extras.cpu.quantized import Quantized, quantized
from outrider.targets.passes.cached_model import CachedModel
from outrider.targets.passes.engine import engine_of, run_pass
from outrider.targets.passes.first_layers import first_layers
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import PassInput
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.token import Token

TEXT = [3, 4, 5, 6, 7, 8]


def written(target: Any, drafter: Any, **options: Any) -> list[Any]:
    return list(decode(target, drafter, Token(), TEXT, max_new_tokens=24, **options))


def test_nearly_all_is_accepted_and_the_text_is_the_target_s(llama: Any) -> None:
    target = TransformersTarget(llama(), optimize="packed")
    plain = written(target, NoDraft())
    rounds = written(target, Quantized(), gamma=4)
    tokens = tokens_of(rounds)
    assert tokens == tokens_of(plain)
    assert len(rounds) < len(plain) / 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("optimize", ["none", "packed"])
def test_the_drafter_continues_from_the_targets_cache(
    llama: Any, optimize: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each draft is that of the rounded weights on the exact keys and values of the text."""
    target = TransformersTarget(llama(hidden_size=32).to(dtype), optimize=optimize)
    rounded = quantized(target.model, "drafter quantized", None)
    drafter, text, drafted = Quantized(), list(TEXT), 0
    drafter.bind(target)
    reads: list[int] = []
    feed = CachedModel.feed

    def watched(cached: CachedModel, tokens: Sequence[int], *rest: Any, **options: Any) -> Any:
        if cached.model is not target.model:
            reads.append(len(tokens))
        return feed(cached, tokens, *rest, **options)

    monkeypatch.setattr(CachedModel, "feed", watched)
    dtypes = {engine_of(model).cache_dtype(model) for model in (rounded, target.model)}
    for round in written(target, drafter, gamma=4):
        cache, known = GrowingCache(), len(text) - 1
        run_pass(target.model, cache, PassInput(torch.tensor([text[:known]]), 1))
        if len(dtypes) > 1:
            cache = in_float32(cache)
        for token in round.draft:
            ids = torch.tensor([text[known:]])
            logits = run_pass(rounded, cache, PassInput(ids, 1)).logits[0, -1]
            assert token == int(logits.argmax())
            text.append(token)
            known, drafted = len(text) - 1, drafted + 1
        text[len(text) - len(round.draft) :] = round.tokens
    assert reads == [1] * drafted and drafted > 10


def in_float32(cache: GrowingCache) -> GrowingCache:
    result, layers = GrowingCache(), list[Any](cache.layers)
    for index, layer in enumerate(layers):
        result.update(layer.keys.float(), layer.values.float(), index)
    return result


def test_the_drafter_reads_the_text_where_the_targets_cache_is_of_no_use(
    llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise IndexError

    target = TransformersTarget(llama())
    own = [round.draft for round in written(target, Quantized(cache="own"), gamma=3)]
    monkeypatch.setattr(CachedModel, "lend", fail)
    assert [round.draft for round in written(target, Quantized(), gamma=3)] == own


@pytest.mark.parametrize("layers", [None, 2])
def test_drafts_come_from_the_rounded_weights(llama: Any, layers: int | None) -> None:
    target = TransformersTarget(llama())
    model = first_layers(target.model, layers) if layers else target.model
    sampling = Sampling(temperature=1.0)
    drafts = [
        [round.draft for round in written(target, drafter, gamma=3, sampling=sampling)]
        for drafter in (
            Quantized(layers=layers, cache="own"),
            SmallLM(quantized(model, "drafter quantized", None)),
        )
    ]
    assert drafts[0] == drafts[1]


def test_the_target_keeps_its_weights(llama: Any) -> None:
    model = llama()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    written(TransformersTarget(model), Quantized(), gamma=2)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
