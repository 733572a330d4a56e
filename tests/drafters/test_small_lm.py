"""A small model drafts: with its own cache, or as the target's first layers."""

from typing import Any

import pytest
import tokenizers
import torch
from tiny.drafters import assert_paths_are_followed, bound
from tiny.models import ENTRIES, build
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from outrider import ConfigError, Context, Sampling, Tokens
from outrider.drafters.parts.networks.drafting_model import require_same_vocabulary
from outrider.drafters.small_lm import SmallLM
from outrider.targets.passes.cached_model import CachedModel
from outrider.targets.passes.first_layers import first_layers
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import draft_after, write_drafts

TREES = ("2x2", "iid:2x2", "paths:2", "top:2x2", "dynamic:2", "sequoia:.5,.2")


def test_the_first_layers_share_weights_and_equal_the_models_own(llama: Any) -> None:
    model, alone = llama(), llama(num_hidden_layers=2)
    short = first_layers(model, 2)
    owned = {parameter.data_ptr() for parameter in model.parameters()}
    assert {parameter.data_ptr() for parameter in short.parameters()} <= owned
    alone.load_state_dict(model.state_dict(), strict=False)
    ids = torch.tensor([[3, 4, 5]])
    with torch.no_grad():
        assert torch.equal(short(ids).logits, alone(ids).logits)
        assert model.config.num_hidden_layers == 3
        assert not torch.equal(short(ids).logits, model(ids).logits)


def test_four_fifths_of_the_layers_by_default(deep_llama: Any) -> None:
    assert first_layers(deep_llama(), None).config.num_hidden_layers == 4


def count_fed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list that gets the number of tokens of every pass."""
    fed: list[int] = []
    feed = CachedModel.feed

    def counting(cached: CachedModel, tokens: Any, *rest: Any, **options: Any) -> Any:
        fed.append(len(tokens))
        return feed(cached, tokens, *rest, **options)

    monkeypatch.setattr(CachedModel, "feed", counting)
    return fed


def test_only_new_tokens_are_fed(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    target = TransformersTarget(llama())
    drafter = bound(SmallLM(llama(seed=3)), target)
    fed = count_fed(monkeypatch)
    text = list(range(20))
    for new in (0, 1, 5):
        text += [3] * new
        draft_after(drafter, target, text, 3, sampling=Sampling())
    assert fed[0] == 20
    assert max(fed[1:]) <= 5


def test_the_positions_of_one_text_are_drafted_in_a_single_pass(
    llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = TransformersTarget(llama().double())
    drafter = bound(SmallLM(llama(seed=3).double()), target)
    fed = count_fed(monkeypatch)
    text = list(range(20))
    for first, last in ((8, 14), (14, 20), (3, 9)):
        contexts = [Context(Tokens(text, length)) for length in range(first, last + 1)]
        write_drafts(drafter, target, contexts, gamma=1, sampling=Sampling(temperature=1.0))
    assert len(fed) == 3
    assert fed[1] == 7  # what the second call had to add, and its first position again


@pytest.mark.parametrize("tree", TREES)
def test_the_distributions_of_a_tree_are_those_of_its_paths(llama: Any, tree: str) -> None:
    """Compares a tree of one pass for each depth, over several rounds, with plain passes."""
    model = llama(seed=3).double()
    target = TransformersTarget(llama().double())
    drafter = bound(SmallLM(model, tree=tree), target)

    @torch.no_grad()
    def exact(text: list[int], path: list[int]) -> Tensor:
        return model(torch.tensor([text + path])).logits[0, -1].softmax(-1)

    assert_paths_are_followed(drafter, target, exact, [3, 4, 5])


def tokenizer(words: list[str]) -> Any:
    backend = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0])
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def test_another_tokenizer_is_refused_with_a_word(llama: Any) -> None:
    target = TransformersTarget(llama(), tokenizer(["a", "b", "c"]))
    with pytest.raises(ConfigError, match="31 tokens, the target's 31, and their tokenizers disag"):
        require_same_vocabulary(llama(), tokenizer(["a", "c", "b"]), target, hint="")
    require_same_vocabulary(llama(), tokenizer(["a", "b", "c"]), target, hint="")


@pytest.mark.parametrize("name", ["bloom", "gpt_neo"])
def test_a_model_that_reads_no_tree_writes_chains_only(name: str) -> None:
    target = TransformersTarget(build(ENTRIES["llama"]))
    with pytest.raises(ConfigError, match=r"drafter.tree='top:2x2': \w+ writes only chains, since"):
        SmallLM(build(ENTRIES[name]), tree="top:2x2").bind(target)
    # Hypotheses that share a beginning are read one by one instead, with the same logits.
    contexts = [Context(Tokens([5, 6, 7, *end])) for end in ([8, 9], [10, 11, 12], [8, 20])]
    drawn = Sampling(temperature=1.0)
    drafts = []
    for texts in (contexts, *([context] for context in contexts)):
        drafter = bound(SmallLM(build(ENTRIES[name])), target)
        drafts += write_drafts(drafter, target, texts, gamma=1, sampling=drawn)
    for together, alone in zip(drafts[:3], drafts[3:], strict=True):
        assert torch.allclose(together.probs[0], alone.probs[0], atol=1e-4)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("openai-gpt", "does not use the cache"), ("bert (both ways)", "how a text is split")],
)
def test_a_model_that_can_not_be_rolled_back_is_refused(name: str, reason: str) -> None:
    target = TransformersTarget(build(ENTRIES["llama"]))
    with pytest.raises(ConfigError, match=f"drafter small_lm: model .*{reason}"):
        SmallLM(build(ENTRIES[name])).bind(target)
