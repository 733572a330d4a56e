"""Early exit: the target's first layers draft on its cache, with an adapter behind them or not."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
import torch
from tiny.drafters import bound
from tiny.models import ENTRIES, build
from tiny.parts import held
from tiny.published import PublishedNetwork, Refused, causal_mask
from torch import Tensor
from torch.nn.functional import rms_norm
from transformers.models.llama.modeling_llama import (
    LlamaDecoderLayer,
    LlamaMLP,
    LlamaRotaryEmbedding,
)

from outrider import ConfigError, Context, Drafter, Sampling, Tokens, decode
from outrider.drafters.early_exit import EarlyExit
from outrider.drafters.parts.networks.adapter import Adapter
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.drafters.small_lm import SmallLM
from outrider.targets.passes.cached_model import CachedModel
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import context_after, draft_after, write_draft, write_drafts
from outrider.verifiers.recursive import WithoutReplacement
from outrider.verifiers.token import Token

SAMPLED = Sampling(temperature=1.0)
TEXT = [3, 9, 4, 3, 9, 5, 8]


def written(target: Any, drafter: Any, **options: Any) -> list[Any]:
    rule = WithoutReplacement() if drafter.trees else Token()
    return list(decode(target, drafter, rule, TEXT, max_new_tokens=24, **options))


@pytest.mark.parametrize("tree", [None, "2x1x1"])
def test_without_an_adapter_drafts_are_those_of_the_first_layers(
    llama: Any, tree: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same drafts as those of `small_lm`, of which only the text is not read."""
    model = llama(eos_token_id=None).double()
    target, reads = TransformersTarget(model), list[int]()
    read = CachedModel.feed

    def watched(cached: CachedModel, tokens: Sequence[int], *rest: Any, **options: Any) -> Any:
        if cached.model is not model:
            reads.append(len(tokens))
        return read(cached, tokens, *rest, **options)

    text = list(TEXT)
    exits, layers = EarlyExit(2, tree=tree), SmallLM(layers=2, tree=tree)
    for drafter in (exits, layers):
        drafter.bind(target)
    monkeypatch.setattr(CachedModel, "feed", watched)
    for seed in range(4):
        context = context_after(exits, target, text)
        drafts = []
        for drafter in (layers, exits):
            reads.clear()
            drafts.append(
                write_draft(drafter, target, context, gamma=3, sampling=SAMPLED, seed=seed)
            )
        assert drafts[0].tokens == drafts[1].tokens
        torch.testing.assert_close(drafts[1].probs, drafts[0].probs, rtol=1e-9, atol=1e-12)
        assert reads == ([1, 1, 1] if tree is None else [1, 2, 2])
        text = [*text, drafts[0].tokens[0], 7] if seed < 2 else [*text[:4], seed]


@pytest.mark.parametrize("path", [None, "untrained"])
def test_the_target_resumes_behind_the_layers_that_have_drafted(
    llama: Any, path: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 4 layers, 2 draft 4 tokens: 28 times a layer reads a token in a round, or 20."""
    target = TransformersTarget(llama(num_hidden_layers=4, eos_token_id=None).double())
    run, read = LlamaMLP.forward, list[int]()

    def watched(part: Any, states: Tensor) -> Any:
        read.append(states.shape[1])
        return run(part, states)

    drafter, texts = bound(EarlyExit(2, path), target), []
    monkeypatch.setattr(LlamaMLP, "forward", watched)
    for expected in (20, 28):
        rounds = []
        for round in decode(target, drafter, Token(), TEXT, gamma=4, max_new_tokens=24):
            whole = round.drafted == 4 and bool(rounds)  # the first round reads the prompt
            rounds.append(round)
            assert not whole or sum(read) == expected
            read.clear()
        assert sum(round.accepted for round in rounds) not in (0, 4 * len(rounds))
        texts.append([token for round in rounds for token in round.tokens])
        monkeypatch.setattr(EarlyExit, "computed", Drafter.computed)
    assert texts[0] == texts[1]


def adapted(model: Any, weights: Mapping[str, Tensor], text: Sequence[int]) -> Any:
    """Returns the distribution after a text: a layer of Llama's without feed-forward."""
    layer = LlamaDecoderLayer(model.config, 0).to(model.dtype)
    without = {name: torch.zeros_like(rows) for name, rows in layer.state_dict().items()}
    layer.load_state_dict({name: weights.get(name, zeros) for name, zeros in without.items()})
    ids = torch.tensor([text])
    with torch.no_grad():
        early = model(ids, output_hidden_states=True).hidden_states[2]
        positions = torch.arange(len(text))[None]
        turn = LlamaRotaryEmbedding(model.config)(early, positions)
        mask = causal_mask(len(text)).to(model.dtype)
        out = layer(early, attention_mask=mask, position_embeddings=turn)[0, -1]
        norm = weights["norm.weight"].to(model.dtype)
        return model.lm_head(rms_norm(out, out.shape, norm, model.config.rms_norm_eps)).softmax(-1)


class TestPublished(PublishedNetwork):
    """Kangaroo's layout, with an entry for the layers below the adapter."""

    drafter, network, file = EarlyExit, Adapter, "pytorch_model.bin"
    refused: ClassVar[Refused] = {
        "exit_layer=None: expected a whole number": ({"exit_layer": None}, {}),
        r"tensor self_attn\.k_proj\.weight is \[8, 16\]": ({"num_key_value_heads": 2}, {}),
    }

    def layout(self, model: Any, variant: Any) -> Any:
        shapes = {"q": (16, 16), "k": (8, 16), "v": (8, 16), "o": (16, 16)}
        tensors = {
            f"layers.0.self_attn.{name}_proj.weight": torch.randn(*shape)
            for name, shape in shapes.items()
        }
        for name in ("layers.0.input_layernorm.weight", "norm.weight"):
            tensors[name] = torch.rand(16) + 0.5
        tensors["layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
        config = {"hidden_size": 16, "vocab_size": 31, "num_hidden_layers": 1, "exit_layer": 2}
        return config, tensors

    def saved(self, tensors: Any) -> Any:
        return {name: rows for name, rows in tensors.items() if "inv_freq" not in name}

    def reference(self, model: Any, w: Any, text: Any, drafted: Any, variant: Any) -> Any:
        weights = {name.removeprefix("layers.0."): rows for name, rows in w.items()}
        return [adapted(model, weights, [*text, *drafted[:n]]) for n in range(len(drafted))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("optimize", ["none", "packed"])
def test_an_adapter_on_packed_weights(llama: Any, optimize: str, dtype: torch.dtype) -> None:
    target = TransformersTarget(llama(hidden_size=32).to(dtype), optimize=optimize)
    right = llama(hidden_size=32).to(dtype).double()
    drafter = bound(EarlyExit(path="untrained"), target)
    adapter = Adapter.untrained(TransformersTarget(right), Vocabulary(31), layers=2)
    adapter.load_state_dict(held(drafter, Adapter).state_dict())
    draft = draft_after(drafter, target, TEXT, 3)
    for depth, probs in enumerate(draft.probs):
        expected = adapted(right, adapter.state_dict(), [*TEXT, *draft.tokens[:depth]])
        torch.testing.assert_close(
            probs, expected, rtol=0, atol=1e-5 if dtype is torch.float32 else 0.05
        )


@pytest.mark.parametrize("path", [None, "untrained"])
def test_many_positions_of_a_text_are_drafted_for_at_once(llama: Any, path: str | None) -> None:
    target = TransformersTarget(llama().double())
    drafter = bound(EarlyExit(2, path), target)
    whole = context_after(drafter, target, TEXT)
    contexts = [
        Context(Tokens(TEXT, length), None, whole.features) for length in range(2, len(TEXT))
    ]
    together = write_drafts(drafter, target, contexts, gamma=3, sampling=SAMPLED)
    for seed, (context, draft) in enumerate(zip(contexts, together, strict=True)):
        alone = write_draft(drafter, target, context, gamma=3, sampling=SAMPLED, seed=seed)
        assert draft.tokens == alone.tokens
        torch.testing.assert_close(draft.probs, alone.probs, rtol=1e-9, atol=1e-12)


def test_targets_that_can_not_be_cut_are_refused(
    monkeypatch: pytest.MonkeyPatch, llama: Any
) -> None:
    gpt2 = TransformersTarget(build(ENTRIES["gpt2"]))
    EarlyExit(1).bind(gpt2)
    with pytest.raises(ConfigError, match="GPT2Model has no norm after its layers"):
        EarlyExit(1, "untrained").bind(gpt2)
    with pytest.raises(ConfigError, match="drafter EarlyExit needs cache"):
        written(TransformersTarget(build(ENTRIES["mamba2"])), EarlyExit(1))

    def fail(*_: Any) -> None:
        raise IndexError

    monkeypatch.setattr(CachedModel, "lend", fail)
    with pytest.raises(ConfigError, match="LlamaForCausalLM can't draft on its own cache"):
        EarlyExit(1).bind(TransformersTarget(llama()))
