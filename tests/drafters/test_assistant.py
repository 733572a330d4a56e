"""Assistants of Gemma 4: the logits of transformers' own, on the target's keys and values."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tiny.drafters import bound, tokens_of
from tiny.models import ENTRIES, build, randomise
from tiny.published import CALLS, TEXT
from transformers import (
    CONFIG_MAPPING,
    Gemma4AssistantForCausalLM,
    Gemma4UnifiedAssistantForCausalLM,
)

from outrider import ConfigError, decode
from outrider.drafters.assistant import Assistant
from outrider.drafters.none import NoDraft
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import draft_after
from outrider.verifiers.token import Token

CLASSES = {
    "gemma4_text": Gemma4AssistantForCausalLM,
    "gemma4_unified_text": Gemma4UnifiedAssistantForCausalLM,
}


@pytest.fixture(autouse=True)
def sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets all layers share keys and values, as in transformers 5.24; 5.23.0 refuses the models."""
    for kind in CLASSES:
        own = CONFIG_MAPPING[kind].kv_sharing_modes.fget

        def modes(config: Any, own: Any = own) -> list[str | None]:
            count = config.num_hidden_layers
            return ["reuse"] * count if config.num_kv_shared_layers == count else own(config)

        monkeypatch.setattr(CONFIG_MAPPING[kind], "kv_sharing_modes", property(modes))


def target_and_assistant(kind: str, **settings: Any) -> tuple[TransformersTarget, Any]:
    """Returns a target with layers that share keys and values, and a random assistant for it."""
    model = build(ENTRIES[kind])
    own = model.config.to_dict() | {
        "num_hidden_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"],
        "num_kv_shared_layers": 2,
        "hidden_size": 16,
        "per_layer_config": {"1": model.config.to_dict()["per_layer_config"]["1"]},
        "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": 0,
        "use_double_wide_mlp": False,
    }
    config = CLASSES[kind].config_class(
        text_config=CONFIG_MAPPING[kind](**own),
        backbone_hidden_size=model.config.hidden_size,
        **settings,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        assistant = CLASSES[kind](config).float().eval()
        randomise(assistant, 1.0, 1.0)
    return TransformersTarget(model), assistant


@torch.no_grad()
def logits(model: Any, assistant: Any, text: Sequence[int], drafted: Sequence[int]) -> list[Any]:
    """Returns what transformers computes after a text and each drafted token, without any cache."""
    known = model(
        torch.tensor([[*text[:-1]]]),
        use_cache=False,
        output_hidden_states=True,
        return_shared_kv_states=True,
    )
    state, found = known.hidden_states[-1][:, -1:], []
    for token in (text[-1], *drafted):
        embedded = model.get_input_embeddings()(torch.tensor([[token]]))
        after = assistant(
            inputs_embeds=torch.cat([embedded, state], dim=-1),
            position_ids=torch.tensor([[len(text) - 1]]),
            shared_kv_states=dict(known.shared_kv_states),
        )
        state = after.last_hidden_state
        found.append(after.logits[0, -1])
    return found


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("kind", CLASSES)
def test_drafts_have_the_logits_of_transformers(kind: str, ordered: bool) -> None:
    """The texts are longer than the window of the sliding layers."""
    some = {"use_ordered_embeddings": True, "num_centroids": 8, "centroid_intermediate_top_k": 3}
    target, assistant = target_and_assistant(kind, **(some if ordered else {}))
    if ordered:
        assistant.masked_embedding.token_ordering.copy_(torch.randperm(target.vocab_size))
    drafter = bound(Assistant((assistant, None)), target)
    for length, gamma in CALLS:
        text = (TEXT * 2)[: 2 * length]
        draft = draft_after(drafter, target, text, gamma, seed=length)
        assert len(draft) == gamma
        right = logits(target.model, assistant, text, draft.tokens[:-1])
        for found, exact in zip(draft.logits, right, strict=True):
            torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-4)


def test_a_tree_has_the_logits_of_its_paths() -> None:
    target, assistant = target_and_assistant("gemma4_text")
    drafter = bound(Assistant(assistant, tree="2x2x1"), target)
    draft = draft_after(drafter, target, TEXT, 3)
    assert len(draft) == 10
    for node in set(draft.calls):  # the first of its siblings
        path = [draft.tokens[it] for it in draft.path(node)[:-1]]
        right = logits(target.model, assistant, TEXT, path)[-1]
        torch.testing.assert_close(draft.logits[node], right, rtol=1e-4, atol=1e-4)


def test_an_assistant_drafts_from_the_second_round_on_and_the_text_is_the_targets() -> None:
    target, assistant = target_and_assistant("gemma4_text")
    rounds = list(decode(target, Assistant(assistant), Token(), TEXT, gamma=3, max_new_tokens=9))
    assert [round.drafted for round in rounds[:2]] == [0, 3]
    plain = decode(target, NoDraft(), Token(), TEXT, max_new_tokens=9)
    assert tokens_of(rounds) == tokens_of(plain)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("model", r"^drafter\.model='LlamaForCausalLM': expected an assistant of Gemma 4 for"),
        ("width", r"^drafter\.model='Gemma4AssistantForCausalLM': expected an assistant of Gemma"),
        ("kinds", r"^target='LlamaForCausalLM': expected layers of "),
    ],
)
def test_a_model_that_does_not_fit(change: str, line: str, llama: Any) -> None:
    target, assistant = target_and_assistant("gemma4_text")
    other = llama(hidden_size=32, vocab_size=target.vocab_size)
    if change == "width":
        assistant.config.backbone_hidden_size = 8
    if change == "kinds":
        target = TransformersTarget(other)
    with pytest.raises(ConfigError, match=line):
        Assistant(other if change == "model" else assistant).bind(target)
