"""Recurrent states: rollbacks near and far, what is read again, and how often."""

from typing import Any

import pytest
import torch
from tiny.parts import held
from transformers import Mamba2Config, Mamba2ForCausalLM

from outrider import TargetError
from outrider.targets.passes import engine
from outrider.targets.passes.cached_model import CachedModel
from outrider.targets.passes.masks import tree_mask
from outrider.targets.passes.pass_input import PassInput
from outrider.targets.passes.recurrent import AGAIN, RecurrentCache


@pytest.fixture
def model() -> Any:
    """A Mamba 2 of two layers, in double precision."""
    sizes = {"hidden_size": 16, "num_heads": 4, "head_dim": 8, "state_size": 4, "n_groups": 1}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        config = Mamba2Config(vocab_size=31, num_hidden_layers=2, chunk_size=8, **sizes)
        return Mamba2ForCausalLM(config).double().eval()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of tokens of each pass."""
    counts: list[int] = []
    run_modules = engine.run_modules

    def counted(model: Any, cache: Any, inputs: PassInput) -> Any:
        counts.append(inputs.ids.shape[1])
        return run_modules(model, cache, inputs)

    monkeypatch.setattr(engine, "run_modules", counted)
    return counts


def feed(cached: CachedModel, tokens: list[int], text: list[int], rows: int) -> list[int]:
    """Feeds tokens behind a text, and holds the logits against a pass over all; returns all."""
    logits, text = cached.feed(tokens, rows), text + tokens
    with torch.no_grad():
        right = cached.model(torch.tensor([text]), use_cache=False).logits[0, -rows:]
    torch.testing.assert_close(logits, right, rtol=1e-6, atol=1e-6)
    assert cached.length == len(text)
    return text


def test_accepted_tokens_are_read_again_with_the_next_ones(model: Any, read: list[int]) -> None:
    cached = CachedModel(model, {"hidden_states"})
    text = feed(cached, [3, 4, 5, 6], [], 3)
    cached.drop(1)
    text = feed(cached, [7, 8, 9], text[:-1], 3)
    assert read == [4, 6]  # nothing lay before the first snapshot
    cached.drop(0)
    text = feed(cached, [10, 11], text, 2)
    cached.drop(1)
    feed(cached, [12, 13], text[:-1], 2)
    assert read == [4, 6, 2, 3]
    right = model(torch.tensor([[3, 4, 5, 7, 8, 9, 10, 12, 13]]), output_hidden_states=True)
    states = cached.features["hidden_states"]
    torch.testing.assert_close(states, right.hidden_states[-1][0], rtol=1e-6, atol=1e-6)


def test_many_tokens_are_read_by_themselves_once(model: Any, read: list[int]) -> None:
    cached = CachedModel(model)
    prompt = list(range(1, AGAIN + 4))
    text = feed(cached, [*prompt, 20, 21], [], 3)
    for token in (22, 23):
        cached.drop(2)
        text = feed(cached, [token, 24, 25], text[:-2], 3)
    assert read == [AGAIN + 2, 3, 4, 5]
    for _ in range(AGAIN):
        cached.drop(2)
        text = feed(cached, [26, 27, 28], text[:-2], 3)
    assert max(read[1:]) <= AGAIN + 3


def test_a_rollback_beyond_the_snapshot_reads_the_text_again(model: Any, read: list[int]) -> None:
    cached = CachedModel(model)
    text = feed(cached, [3, 4, 5], [], 1)
    cached.drop(0)
    text = feed(cached, [6, 7], text, 1)
    cached.drop(4)
    feed(cached, [8], text[:1], 1)
    assert read == [3, 2, 2]


def test_no_mask_is_taken(model: Any) -> None:
    cached = CachedModel(model)
    cached.feed([3, 4], 1)
    line = "model Mamba2ForCausalLM: its states take each token in turn: expected chains, one text"
    with pytest.raises(TargetError, match=line):
        cached.feed([5, 6], 2, tree_mask((-1, -1), cached=2))


def test_the_first_tokens_of_the_last_are_kept(model: Any) -> None:
    cached = CachedModel(model)
    text = feed(cached, [3, 4, 5, 6], [], 4)
    cached.retain_rows(3, [0, 1])
    feed(cached, [7], text[:3], 1)
    assert held(cached, RecurrentCache)


def with_unknown_layers(model: Any) -> None:
    model.config.layer_types = ["compressed_sparse_attention"] * len(model.model.layers)


def declared_stateful(model: Any) -> None:
    model._is_stateful = True


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_unknown_layers, "layers of compressed_sparse_attention"),
        (declared_stateful, "a recurrent state"),
    ],
)
def test_states_of_an_unknown_kind_are_refused(llama: Any, change: Any, reason: str) -> None:
    model = llama()
    change(model)
    with pytest.raises(TargetError, match=f"LlamaForCausalLM: {reason} can't be rolled back"):
        CachedModel(model)
