"""The native layer computes what the layer in PyTorch does, for chains, trees and long texts."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from outrider.drafters.parts.networks.decoder_layers import DecoderLayer, FusionLayer
from outrider.drafters.parts.networks.layer import KeysAndValues, LayerConfig, layer_output
from outrider.extras.cpu import native_layer
from outrider.extras.cpu.engine import PackedWeights
from outrider.targets.passes.masks import tree_mask

WIDTH = 32


def sizes(inputs: int, head_dim: int = 16) -> LayerConfig:
    return LayerConfig(
        hidden_size=WIDTH,
        intermediate_size=80,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=head_dim,
        rms_norm_eps=1e-5,
        rope_theta=500.0,
        input_size=inputs,
    )


def random(make: Callable[[], Any]) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        layer = make().eval().requires_grad_(False)
        for parameter in layer.parameters():
            parameter.copy_(torch.randn_like(parameter) / 4)
    return layer


def packed(layer: Any) -> Any:
    layer = copy.deepcopy(layer)
    PackedWeights().prepare_network(layer)
    return layer


def is_native(layer: Any) -> bool:
    return native_layer._native.get(layer) is not None


KINDS: dict[str, tuple[Callable[[], Any], Callable[..., Tensor]]] = {
    "decoder": (lambda: DecoderLayer(sizes(WIDTH)), lambda layer, x, *rest: layer(x, *rest)),
    "fusion": (
        lambda: FusionLayer(sizes(2 * WIDTH)),
        lambda layer, x, *rest: layer(x.flip(-1), x, *rest),
    ),
    "without a norm": (
        lambda: DecoderLayer(sizes(WIDTH)),
        lambda layer, x, positions, sees, cache: layer_output(
            layer, x, x, positions=positions, sees=sees, cache=cache
        ),
    ),
}


@pytest.mark.parametrize("size", [1, 1e6])  # of states: a few entries of real ones are huge
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_native_layer_equals_the_layer_in_pytorch(kind: str, size: float) -> None:
    make, call = KINDS[kind]
    plain = random(make)
    native = packed(plain)
    parents = [-1, 0, 0, 1, -1]
    tree = tree_mask(parents, cached=80)
    text = size * torch.randn(1, 85, WIDTH)
    caches = [KeysAndValues(), KeysAndValues()]
    # More tokens than the library takes at once, then a few, then one, then a tree.
    for first, last in ((0, 70), (70, 79), (79, 80), (80, 85)):
        positions = torch.arange(first, last)[None] if first < 80 else tree.positions[None]
        sees = None if first < 80 else tree.sees[None, None]
        other, one = (  # the native one first, which leaves its input alone
            call(layer, text[:, first:last], positions, sees, cache)
            for layer, cache in zip((native, plain), caches, strict=True)
        )
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5 * size)
    assert is_native(native) and not is_native(plain)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DecoderLayer(sizes(WIDTH), normed=True),
        lambda: DecoderLayer(sizes(WIDTH, head_dim=8)),
        lambda: DecoderLayer(sizes(WIDTH)).double(),
        lambda: DecoderLayer(sizes(WIDTH)).bfloat16(),
    ],
    ids=["normed heads", "narrow heads", "float64", "bfloat16"],
)
@torch.no_grad()
def test_other_layers_run_in_pytorch(make: Callable[[], Any]) -> None:
    plain = random(make)
    other = plain if plain.mlp.up_proj.weight.dtype is torch.float64 else packed(plain)
    x = torch.randn(1, 3, WIDTH).to(plain.mlp.up_proj.weight.dtype)
    outs = [layer(x, torch.arange(3)[None], None, KeysAndValues()) for layer in (plain, other)]
    torch.testing.assert_close(*outs, rtol=2e-2, atol=2e-2)
    assert not is_native(other)
