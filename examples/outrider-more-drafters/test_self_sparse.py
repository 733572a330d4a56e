"""SelfSparse drafts like the target with the middle masked, and keeps what is attended to most."""

from itertools import chain
from typing import Any

import pytest
import torch
from outrider import ConfigError, Context, Sampling, decode
from outrider.drafters.none import NoDraft
from outrider.targets.passes.pass_input import cache_argument
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import context_after, write_draft
from outrider.verifiers.token import Token
from transformers import (
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from outrider_more_drafters import self_sparse
from outrider_more_drafters.self_sparse import POOL, SelfSparse

WARM = Sampling(temperature=1.0)
TEXT = [3, 7, 7, 2, 9, 4, 11, 5, 6, 8, 12, 3, 2, 10, 4, 13, 5, 9, 20]


@pytest.fixture
def target() -> TransformersTarget:
    sizes = {"num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = LlamaConfig(
        vocab_size=31, hidden_size=16, intermediate_size=32, initializer_range=0.3, **sizes
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return TransformersTarget(LlamaForCausalLM(config).eval())


def first_distribution(drafter: SelfSparse, target: Any, context: Context) -> Any:
    drafter.bind(target)
    draft = write_draft(drafter, target, context, gamma=2, sampling=WARM)
    return draft.probs[0].float()


@torch.no_grad()
def masked_distribution(target: Any, kept: list[list[int]]) -> Any:
    """The distribution after TEXT if its last token sees only what each layer keeps, and itself."""
    cache = DynamicCache()
    cached = {cache_argument(type(target.model).forward): cache}
    target.model(input_ids=torch.tensor([TEXT[:-1]]), **cached)
    for layer, places in zip(cache.layers, kept, strict=True):
        mask = torch.zeros(len(TEXT) - 1, dtype=torch.bool)
        mask[places] = True
        # A value that a mask hides may as well be far away: its key draws no attention.
        layer.keys = layer.keys[:, :, mask]
        layer.values = layer.values[:, :, mask]
    at = torch.tensor([[len(TEXT) - 1]])
    mask = torch.zeros(1, 1, 1, len(kept[0]) + 1)
    out = target.model(
        input_ids=torch.tensor([TEXT[-1:]]), position_ids=at, attention_mask=mask, **cached
    )
    return out.logits[0, -1].softmax(-1)


def test_an_unlimited_selection_drafts_the_targets_text(target: Any) -> None:
    rounds = list(decode(target, SelfSparse(window=64), Token(), TEXT, gamma=4, max_new_tokens=24))
    drafted = [round for round in rounds if round.drafted]
    assert len(drafted) >= 4
    assert all(round.accepted == round.drafted for round in drafted)


def test_the_distribution_is_the_targets_with_the_middle_masked(target: Any) -> None:
    drafter = SelfSparse(sink=2, window=5)
    probs = first_distribution(drafter, target, context_after(drafter, target, TEXT))
    kept = [0, 1, *range(len(TEXT) - 6, len(TEXT) - 1)]
    right = masked_distribution(target, [kept] * 5)
    torch.testing.assert_close(probs, right, rtol=1e-4, atol=1e-6)
    assert (
        probs - masked_distribution(target, [list(range(len(TEXT) - 1))] * 5)
    ).abs().max() > 1e-3


def test_picked_positions_draw_most_attention(target: Any) -> None:
    """Weighed anew every `window` tokens, by the `observed` ones before that, head by head."""
    drafter = SelfSparse(sink=1, window=4, picked=3, observed=3)
    context = context_after(drafter, target, TEXT)
    drafter.bind(target)
    known, length = len(TEXT) - 1, 16  # 18 tokens are known: the window began anew at 16
    picks = drafter._picks(context, known)
    target.model.set_attn_implementation("eager")
    out = target.model(torch.tensor([TEXT[:length]]), output_attentions=True)
    for layer, weights in enumerate(out.attentions):
        places = picks(layer)
        start = length - 3
        for head in range(2):
            rows = weights[0, 2 * head : 2 * head + 2, start:, :start]
            rows = rows / rows.sum(
                -1, keepdim=True
            )  # what goes to the observed themselves is left out
            smooth = torch.nn.functional.avg_pool1d(
                rows.sum((0, 1))[None], POOL, stride=1, padding=POOL // 2
            )[0]
            best = set((smooth[1 : known - 4].topk(3).indices + 1).tolist())
            assert places[head].tolist() == [0, *sorted(best), 14, 15, 16, 17]


def test_picking_everything_is_the_whole_text(target: Any) -> None:
    drafter = SelfSparse(sink=1, window=2, picked=50, observed=2)
    probs = first_distribution(drafter, target, context_after(drafter, target, TEXT))
    right = masked_distribution(target, [list(range(len(TEXT) - 1))] * 5)
    torch.testing.assert_close(probs, right, rtol=1e-4, atol=1e-6)


def test_a_text_shorter_than_the_sink_is_kept_whole(target: Any) -> None:
    drafter = SelfSparse(sink=2, window=1, picked=2, observed=1)
    texts = [
        [round.tokens for round in decode(target, part, Token(), [5], max_new_tokens=6)]
        for part in (drafter, NoDraft())
    ]
    assert [*chain(*texts[0])] == [*chain(*texts[1])]


def test_a_target_that_hides_its_attention_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.random.fork_rng(devices=[]):
        model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_embd=16, n_layer=2, n_head=2))
    target = TransformersTarget(model.eval())
    SelfSparse(sink=1, window=2, picked=3).bind(target)
    monkeypatch.setattr(self_sparse, "attention_weights", lambda *_: [])
    SelfSparse(sink=1, window=2).bind(target)
    with pytest.raises(ConfigError, match=r"drafter\.picked=3: expected 0.*GPT2LMHeadModel"):
        SelfSparse(picked=3).bind(target)
