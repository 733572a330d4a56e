"""SWIFT: drafts without some layers, on the target's own cache; texts decide which layers."""

from typing import Any

import pytest
import torch
from tiny.drafters import assert_paths_are_followed
from tiny.models import ENTRIES, build
from tiny.parts import held
from torch import Tensor
from transformers import DynamicCache

from outrider import Sampling, decode
from outrider.drafters.swift import Past, Swift, exchanged
from outrider.targets.passes.first_layers import some_layers
from outrider.targets.passes.pass_input import cache_argument
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import context_after, write_draft
from outrider.verifiers.token import Token

SAMPLED = Sampling(temperature=1.0)
TEXT = [3, 9, 4, 3, 9, 5, 8]


def skipping(model: Any, text: list[int], draft: list[int], skipped: tuple[int, ...]) -> Any:
    """Returns the logits after a draft: layers are taken out where the target has not read."""
    cached = {cache_argument(type(model).forward): DynamicCache()}
    layers, config = model.model.layers, model.config
    with torch.no_grad():
        model(torch.tensor([text[:-1]]), **cached)
        kept = [layer for number, layer in enumerate(layers) if number not in skipped]
        model.model.layers = torch.nn.ModuleList(kept)
        logits = model(torch.tensor([[text[-1], *draft]]), **cached).logits[0, -1]
    model.model.layers, model.config = layers, config
    return logits


@pytest.mark.parametrize("tree", [None, "2x1x1"])
def test_the_layers_left_go_on_from_the_targets_cache(deep_llama: Any, tree: str | None) -> None:
    model = deep_llama().double()
    target, drafter = TransformersTarget(model), Swift(tree=tree)
    drafter.bind(target)

    def exact(text: list[int], path: list[int]) -> Tensor:
        return skipping(model, text, path, (1, 3)).softmax(-1)

    assert_paths_are_followed(drafter, target, exact, TEXT)


def test_only_new_tokens_are_copied(deep_llama: Any) -> None:
    target, drafter = TransformersTarget(deep_llama()), Swift()
    drafter.bind(target)
    contexts = [context_after(drafter, target, TEXT[:length]) for length in (5, 7)]
    write_draft(drafter, target, contexts[0], gamma=3, sampling=SAMPLED)
    for rows in contexts[1].features.values():
        rows[:4] = float("nan")  # these are known
    draft = write_draft(drafter, target, contexts[1], gamma=3, sampling=SAMPLED)
    assert all(probs is not None and probs.isfinite().all() for probs in draft.probs)


def test_texts_decide_which_layers_are_skipped(deep_llama: Any) -> None:
    """Layers 1 and 2 do nothing: it ends up skipping these, and is always right then."""
    model = deep_llama(eos_token_id=None)
    for layer in model.model.layers[1:3]:
        layer.self_attn.o_proj.weight.data.zero_()
        layer.mlp.down_proj.weight.data.zero_()
    target, drafter = TransformersTarget(model), Swift()
    rates = []
    for number in range(4):
        rounds = list(decode(target, drafter, Token(), [3, number], gamma=3, max_new_tokens=30))
        drafted = sum(round.drafted for round in rounds)
        rates.append(sum(round.accepted for round in rounds) / drafted)
    assert held(drafter, Past).skipped == (1, 2)
    assert rates[0] < rates[-1] == 1.0
    text = drafter.open()
    drafter.forget()
    assert (drafter.remembered, text.remembered) == (0, 4)
    assert not Swift(remember=False).remembers


def test_all_exchanges_come_up_in_turn() -> None:
    tried = [exchanged((1, 3), 7, number) for number in range(6)]
    assert tried == [(2, 3), (1, 2), (3, 4), (1, 4), (3, 5), (1, 5)]
    assert exchanged((1, 3), 7, 6) == tried[0]
    assert exchanged((1, 2), 4, 0) == (1, 2)


def test_kinds_of_layers_stay_with_their_layers() -> None:
    """Of a model whose layers are of two kinds, each keeps its own window."""
    model = build(ENTRIES["gemma3_text"])
    short = some_layers(model, (0, 3))
    kinds = model.config.layer_types
    assert short.config.layer_types == [kinds[0], kinds[3]]
    assert model.config.num_hidden_layers == 4
    rounds = decode(TransformersTarget(model), Swift(), Token(), [3, 4, 5], max_new_tokens=20)
    assert sum(round.drafted for round in rounds) > 0
