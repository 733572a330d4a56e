"""Any decoder-only transformers model: exact scores, exact rollback, clear refusals."""

import copy
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.drafters import tokens_of
from tiny.subject import written
from transformers import MistralConfig, MistralForCausalLM

from outrider import ConfigError, Draft, Verdict, decode
from outrider.drafters.none import NoDraft
from outrider.drafters.random import Random
from outrider.targets.passes import cached_model
from outrider.targets.passes.engine import use_engine
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.token import Token


def test_scores_of_trees_after_any_history_are_those_of_each_path(llama: Any) -> None:
    model = llama().double()
    draw = random.Random(0)
    text = [3, 4, 5]
    session = TransformersTarget(model).open(text, frozenset({"hidden_states"}))
    for turn in range(10):
        size = draw.randrange(8)
        chain = turn % 2 == 0
        parents = tuple(i - 1 if chain else draw.randrange(-1, i) for i in range(size))
        draft = Draft(tuple(draw.randrange(31) for _ in range(size)), parents, (None,) * size)
        rows = session.score(draft)
        for node in range(-1, size):
            path = [draft.tokens[step] for step in draft.path(node)]
            with torch.no_grad():
                whole = model(torch.tensor([text + path])).logits[0, -1]
            torch.testing.assert_close(rows[node + 1], whole, rtol=1e-9, atol=1e-9)
        accepted = draft.path(draw.randrange(-1, size))
        session.commit(Verdict(accepted, 7))
        text += [draft.tokens[node] for node in accepted]
        with torch.no_grad():
            states = model(torch.tensor([text]), output_hidden_states=True).hidden_states[-1][0]
        torch.testing.assert_close(
            session.features()["hidden_states"], states, rtol=1e-9, atol=1e-9
        )
        text.append(7)


@pytest.mark.parametrize("kind", ["plain", "packed", "windowed"])
@pytest.mark.parametrize("part", [1, 4, 40])
def test_a_prompt_is_read_ahead_of_a_tree(
    kind: str, part: int, llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _windowed() if kind == "windowed" else copy.deepcopy(llama())
    if kind == "packed":
        use_engine(model, "packed")
    masks, known = [], cached_model.run_pass

    def run_pass(model: Any, cache: Any, inputs: Any) -> Any:
        masks.append(None if inputs.mask is None else tuple(inputs.mask.shape[2:]))
        return known(model, cache, inputs)

    monkeypatch.setattr(cached_model, "run_pass", run_pass)
    monkeypatch.setattr(cached_model, "PART", part)
    target = TransformersTarget(model)
    needs = frozenset({"hidden_states", "hidden_states.2"})
    tree = Draft((6, 7, 8, 9), (-1, -1, 0, 1), (None,) * 4)
    for length in (1, 2, 4, 5, 8, 9, 30):
        text = [3 + token % 7 for token in range(length)]
        session = target.open(text, needs)
        masks.clear()
        rows = session.score(tree)
        left = (length - 1) % part + 1
        assert masks == [*[None] * (length > part), (left + 4, length + 4)]
        for node in range(-1, 4):
            path = [tree.tokens[step] for step in tree.path(node)]
            alone = target.open([*text, *path]).score(Draft())[0]
            torch.testing.assert_close(rows[node + 1], alone, rtol=1e-4, atol=1e-4)
        session.commit(Verdict((1, 3), 2))
        right = target.open([*text, 7, 9], needs)
        right.score(Draft())
        for name, states in session.features().items():
            torch.testing.assert_close(states, right.features()[name], rtol=1e-4, atol=1e-4)


def _windowed() -> Any:
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_key_value_heads": 2}
    config = MistralConfig(
        vocab_size=31, num_hidden_layers=4, num_attention_heads=2, sliding_window=5, **sizes
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return MistralForCausalLM(config).eval()


@pytest.mark.parametrize("gamma", [1, 5])
def test_greedy_text_is_that_of_transformers(llama: Any, scripted: Any, gamma: int) -> None:
    model = llama()
    target = TransformersTarget(model)
    prompt = [4, 5, 6, 4, 5]
    text = [*prompt, *written(model, prompt, max_new_tokens=40)]
    for drafter in (NoDraft(), Random(), scripted(text), scripted(text, wrong=12)):
        rounds = decode(target, drafter, Token(), prompt, gamma=gamma, max_new_tokens=40)
        assert tokens_of(rounds) == text[len(prompt) :]


def test_a_folder_gives_model_tokenizer_and_ends(folder: Path) -> None:
    target = TransformersTarget(str(folder))
    assert target.vocab_size == 31
    assert target.max_length == 256
    assert target.eos == {1}
    assert target.model.dtype == torch.float32  # on a CPU
    states = {"cache", "hidden_states", *(f"hidden_states.{layers}" for layers in range(3))}
    assert target.offers == {"model", "tokenizer", *states}
    assert target.encode("the cat") == [2, 4]
    assert TransformersTarget(str(folder), dtype="float64").model.dtype == torch.float64


def test_a_model_without_tokenizer_does_not_offer_one(llama: Any) -> None:
    target = TransformersTarget(llama())
    assert {"model", "hidden_states"} <= target.offers
    assert "tokenizer" not in target.offers
    with pytest.raises(ConfigError, match="expected ids, the target has no tokenizer"):
        target.encode("the cat")
