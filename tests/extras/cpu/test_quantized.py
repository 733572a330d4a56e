"""The target in eight bits drafts nearly what the target says, and leaves its text alone."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tiny.drafters import bound
from torch import Tensor, nn

from outrider import ConfigError, Sampling, decode
from outrider.drafters.small_lm import SmallLM
from outrider.extras.cpu import packed_matrix as panels
from outrider.extras.cpu.packed_linear import PackedLinear
from outrider.extras.cpu.packed_matrix import Panels
from outrider.extras.cpu.quantized import Quantized, loses_nothing, quantized
from outrider.targets.passes.cached_model import CachedModel
from outrider.targets.passes.engine import engine_of, run_pass, use_engine
from outrider.targets.passes.first_layers import first_layers
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import PassInput
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.token import Token


@pytest.mark.parametrize("shape", [(64, 40), (33, 7), (5, 48)])
@pytest.mark.parametrize("rows", [1, 12, 30])
def test_products_are_those_of_the_rounded_weights(rows: int, shape: tuple[int, int]) -> None:
    weight, bias, x = torch.randn(shape), torch.randn(shape[0]), torch.randn(rows, shape[1])
    weight[0] = 0  # a scale of 0 would make it NaN
    packed = Panels(weight, bias, bits=8)
    scale = weight.abs().amax(1, keepdim=True) / 127
    rounded = packed.to_dense()
    assert ((rounded - weight).abs() <= scale * 0.501).all()
    assert torch.allclose(rounded.abs().amax(1), weight.abs().amax(1))
    torch.testing.assert_close(packed.product(x), x @ rounded.T + bias, rtol=1e-5, atol=1e-5)


def assert_is_product(packed: Panels, x: Tensor, right: Tensor) -> None:
    """Asserts that products are right up to a step of rounding, and equal row by row."""
    torch.testing.assert_close(packed.product(x), right, rtol=1e-5, atol=1e-3)
    alone = torch.cat([packed.product(row) for row in x.split(1)])
    assert torch.equal(packed.product(x), alone)


@pytest.mark.parametrize("shape", [(64, 32), (33, 64), (5, 96)])
@pytest.mark.parametrize("rows", [1, 7, 12, 30])
def test_products_are_those_of_weights_of_four_bits(
    built: Any, rows: int, shape: tuple[int, int]
) -> None:
    weight, bias, x = torch.randn(shape), torch.randn(shape[0]), torch.randn(rows, shape[1])
    weight[0] = 0.25  # a scale of 0
    packed = Panels(weight, bias, bits=4)
    dense = packed.to_dense()
    smallest, largest = weight.unflatten(1, (-1, 32)).aminmax(dim=2)
    scale = (largest - smallest) / 15
    assert ((dense - weight).unflatten(1, (-1, 32)).abs().amax(2) <= 0.505 * scale + 2e-3).all()
    # What rounding changes of an input is multiplied by how far a weight is from the middle.
    middle = (smallest.half().float() + 8 * scale.half().float()).repeat_interleave(32, dim=1)
    right = x @ middle.T + inputs(built, x, 127 * 128) @ (dense - middle).T + bias
    assert_is_product(packed, x, right)


@pytest.mark.parametrize("shape", [(64, 32), (33, 64), (5, 96)])
@pytest.mark.parametrize("rows", [1, 7, 12, 30])
@pytest.mark.parametrize("short", [False, True])
def test_products_in_groups_of_eight_bits(
    built: Any, short: bool, rows: int, shape: tuple[int, int]
) -> None:
    weight, bias, x = torch.randn(shape), torch.randn(shape[0]), torch.randn(rows, shape[1])
    x[0, :32] = 0  # a scale of 0
    packed = Panels(weight, bias, bits=8, short_inputs=short)
    dense = packed.to_dense()
    scale = weight.unflatten(1, (-1, 32)).abs().amax(2) / 127
    assert ((dense - weight).unflatten(1, (-1, 32)).abs().amax(2) <= 0.6 * scale).all()
    right = inputs(built, x, 127 if short else 127 * 128) @ dense.T + bias
    assert_is_product(packed, x, right)


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        *((torch.float32, bits) for bits in ({"bits": 8, "short_inputs": True}, {"bits": 8})),
        *((torch.bfloat16, bits) for bits in ({"bits": 4}, {})),
        (torch.float32, {}),
    ],
)
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("rows", [1, 7, 30])
def test_an_input_that_is_no_number_leaves_no_output_a_number(
    built: Any, rows: int, odd: float, dtype: torch.dtype, options: dict[str, Any]
) -> None:
    packed, x = Panels(torch.randn(64, 64).to(dtype), None, **options), torch.randn(rows, 64)
    x[0, 5] = odd
    is_number = packed.product(x).isfinite()
    assert not is_number[0].any() and is_number[1:].all()


def inputs(library: Any, x: Tensor, steps: int) -> Tensor:
    """Returns what a library multiplies instead of x: groups of 32, rounded to so many steps."""
    if not library.outrider_rounds_inputs(panels.GROUPED[8]):
        return x
    groups = x.unflatten(-1, (-1, 32))
    largest = groups.abs().amax(-1, keepdim=True)
    whole = (groups * (steps / largest)).nan_to_num().round()
    return (whole * (largest / steps)).flatten(-2)


def test_groups_of_few_bits_keep_the_weights_of_a_file_of_as_many() -> None:
    """A scale times a whole number, for four bits with an offset: as in GGUF's Q4_1 and Q8_0."""
    scale, offset = (make(8, 2, 1).half().float() for make in (torch.rand, torch.randn))
    four = torch.cat([torch.arange(16.0).repeat(8, 2, 1), torch.randint(16, (8, 2, 16))], dim=2)
    eight = torch.cat([torch.full((8, 2, 1), 127.0), torch.randint(-127, 128, (8, 2, 31))], dim=2)
    for bits, weight in ((4, scale * four + offset), (8, scale * eight)):
        assert torch.equal(Panels(weight.flatten(1), None, bits=bits).to_dense(), weight.flatten(1))


def test_the_head_and_odd_widths_keep_eight_bits(llama: Any) -> None:
    small: Any = quantized(llama(hidden_size=32, intermediate_size=40), "drafter quantized", 4)
    bits = {name: layer.packed.bits for name, layer in small.named_modules() if is_packed(layer)}
    assert bits["lm_head"] == bits["model.layers.0.mlp.down_proj"] == 8
    assert bits["model.layers.0.mlp.up_proj"] == bits["model.layers.0.self_attn.q_proj"] == 4


def test_four_bits_are_chosen_where_they_are_exact(llama: Any) -> None:
    model = llama(hidden_size=32, intermediate_size=64)
    exact = model.model.layers[0].mlp.up_proj
    exact.weight.data = Panels(exact.weight.detach(), None, bits=4).to_dense()
    small: Any = quantized(model, "drafter quantized", None)
    bits = {name: layer.packed.bits for name, layer in small.named_modules() if is_packed(layer)}
    assert [name for name in bits if bits[name] == 4] == ["model.layers.0.mlp.up_proj"]
    assert not loses_nothing(small)
    for layer in model.model.layers.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.weight.data = Panels(layer.weight.detach(), None, bits=4).to_dense()
    assert loses_nothing(quantized(model, "drafter quantized", None))
    target = TransformersTarget(model)
    for options, itself in (({}, True), ({"bits": 4}, False), ({"layers": 1}, False)):
        drafter = bound(Quantized(**options), target)
        assert drafter.is_target is itself


def is_packed(layer: Any) -> bool:
    return isinstance(layer, PackedLinear)


def test_the_model_shares_all_but_its_linear_layers(
    llama: Any, older_library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panels, "library", lambda: older_library)  # which rounds no inputs
    model = llama()
    use_engine(model, "packed")
    small: Any = quantized(model, "drafter quantized")
    assert small.model.embed_tokens is model.model.embed_tokens
    assert small.model.layers[0].input_layernorm is model.model.layers[0].input_layernorm
    layers = [module for module in small.modules() if isinstance(module, PackedLinear)]
    assert layers and all(layer.packed.bits for layer in layers)
    assert not any(
        layer.packed.bits for layer in model.modules() if isinstance(layer, PackedLinear)
    )
    rounded = copy.deepcopy(llama())
    for name, module in rounded.named_modules():
        if isinstance(module, nn.Linear):
            module.weight = nn.Parameter(small.get_submodule(name).weight)
    ids = torch.tensor([[3, 4, 5, 6]])
    torch.testing.assert_close(small(ids).logits, rounded(ids).logits, rtol=0, atol=1e-4)


def test_a_target_of_eight_bits_is_not_rounded_again(llama: Any) -> None:
    rounded = TransformersTarget(llama(), optimize="packed", quantize="int8")
    with pytest.raises(ConfigError, match="the model's weights have few bits already"):
        quantized(rounded.model, "drafter quantized")


def test_layers_without_a_kernel_are_left_alone(
    llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = "need a model in float32 or bfloat16 on a CPU, and a C compiler"
    with pytest.raises(ConfigError, match=needed):
        quantized(llama().half(), "drafter quantized")
    monkeypatch.setattr(panels, "library", lambda: None)
    with pytest.raises(ConfigError, match=needed):
        quantized(llama(), "drafter quantized")


TEXT = [3, 4, 5, 6, 7, 8]


def written(target: Any, drafter: Any, **options: Any) -> list[Any]:
    return list(decode(target, drafter, Token(), TEXT, max_new_tokens=24, **options))


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
