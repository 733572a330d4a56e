"""Any transformers model that writes text: exact scores, exact rollback, clear refusals."""

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.models import ENTRIES, build

from outrider import Draft, Verdict
from outrider.targets.passes import cached_model
from outrider.targets.passes.engine import use_engine
from outrider.targets.transformers import TransformersTarget

KINDS = (
    *("llama", "gpt2", "mistral", "gemma2", "t5", "mt5", "umt5", "bart (seq2seq)"),
    "bart (seq2seq), forced",
)


@pytest.mark.parametrize("name", KINDS)
def test_scores_after_any_history_are_those_of_whole_passes(name: str) -> None:
    """Chains for all, and trees for those that take them; without a cache on the other side."""
    kind, _, is_forced = name.partition(", ")
    model = build(ENTRIES[kind])
    if is_forced:
        model.generation_config.forced_bos_token_id = 0
    model, encodes = model.double(), model.config.is_encoder_decoder
    target = TransformersTarget(model)
    prompt, draw = [5, 6, 7, 8, 9, 5, 6, 4], random.Random(0)

    def whole(ids: list[int]) -> Any:
        texts = {"input_ids": torch.tensor([ids])}
        if encodes:
            texts = {"input_ids": torch.tensor([prompt]), "decoder_input_ids": torch.tensor([ids])}
        with torch.no_grad():
            return model(**texts, use_cache=False, output_hidden_states=True)

    # The norms of Gemma and T5 round to float32, whatever the model's precision.
    close = {"gemma2": 1e-6, "t5": 1e-5, "mt5": 1e-5, "umt5": 1e-5}.get(kind, 1e-9)
    same = partial(torch.testing.assert_close, rtol=close, atol=close)
    numbers = {} if encodes else {"hidden_states": -1, "hidden_states.0": 0, "hidden_states.1": 1}
    text, session = target.begin(prompt)[0], target.open(prompt, frozenset(numbers))
    for turn in range(8):
        size = draw.randrange(8)
        chain = turn % 2 == 0 or not target.trees
        parents = tuple(i - 1 if chain else draw.randrange(-1, i) for i in range(size))
        draft = Draft(tuple(draw.randrange(31) for _ in range(size)), parents, (None,) * size)
        rows = session.score(draft)
        for node in range(-1, size):
            path = [draft.tokens[step] for step in draft.path(node)]
            same(rows[node + 1], whole(text + path).logits[0, -1])
        accepted = draft.path(draw.randrange(-1, size))
        session.commit(Verdict(accepted, 7))
        text += [draft.tokens[node] for node in accepted]
        states = {} if encodes else session.features()
        assert states.keys() == numbers.keys()
        for state, number in numbers.items():
            same(states[state], whole(text).hidden_states[number][0])
        text.append(7)


@pytest.mark.parametrize("kind", ["plain", "packed", "windowed"])
@pytest.mark.parametrize("part", [1, 4, 40])
def test_a_prompt_is_read_ahead_of_a_tree(
    kind: str, part: int, llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(ENTRIES["mistral"]) if kind == "windowed" else llama()
    if kind == "packed":
        use_engine(model, "packed")
    masks, known = [], cached_model.run_pass

    def run_pass(model: Any, cache: Any, inputs: Any) -> Any:
        masks.append(None if inputs.mask is None else tuple(inputs.mask.shape[2:]))
        return known(model, cache, inputs)

    monkeypatch.setattr(cached_model, "run_pass", run_pass)
    monkeypatch.setattr(cached_model, "TOGETHER", part)
    target = TransformersTarget(model)
    needs = frozenset({"hidden_states", "hidden_states.2"})
    tree = Draft((6, 7, 8, 9), (-1, -1, 0, 1), (None,) * 4)
    for length in (1, 2, 4, 5, 8, 9, 30):
        text = [3 + token % 7 for token in range(length)]
        session = target.open(text, needs)
        masks.clear()
        rows = session.score(tree)
        assert masks == ([None, (4, length + 4)] if length > part else [(length + 4, length + 4)])
        for node in range(-1, 4):
            path = [tree.tokens[step] for step in tree.path(node)]
            alone = target.open([*text, *path]).score(Draft())[0]
            torch.testing.assert_close(rows[node + 1], alone, rtol=1e-4, atol=1e-4)
        session.commit(Verdict((1, 3), 2))
        right = target.open([*text, 7, 9], needs)
        right.score(Draft())
        for name, states in session.features().items():
            torch.testing.assert_close(states, right.features()[name], rtol=1e-4, atol=1e-4)


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
