"""A model with a tokenizer of its own drafts, and the text stays the target's to the last bit."""

from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from jaxtyping import Float
from tiny.drafters import assert_paths_are_followed, bound
from tiny.exact import assert_exact
from tiny.parts import held
from tiny.tokenizer_makers import byte_level, unigram
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from outrider import ConfigError, Context, Drafter, Pen, Sampling, Tokens, decode
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.drafters.parts.networks.cached_text import CachedText
from outrider.drafters.parts.texts.translation import OwnText, Translation
from outrider.drafters.parts.trees.shapes import one_by_one
from outrider.drafters.parts.trees.tree_forms import parse_tree
from outrider.drafters.small_lm import SmallLM
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget
from outrider.testing import Setup, parametrize_with_checks
from outrider.testing.tiny_targets import SAMPLED, draft_after, write_draft
from outrider.verifiers.token import Token
from outrider.verifiers.traversal import Traversal

NARROW = (Sampling(temperature=0.7, top_k=2), Sampling(temperature=1.3, top_p=0.7))


@cache
def letters() -> Any:
    """A byte-level tokenizer: " ", a, b, c, d, " a", " b", "ab" and </s>, in this order."""
    return byte_level(b" abcd", [(b" ", b"a"), (b" ", b"b"), (b"a", b"b")], ["</s>"])


@cache
def pieces() -> Any:
    """A Unigram tokenizer with some of these tokens, in another order, and some of its own."""
    return unigram(["b", "▁a", "ba", "c", "▁b"], ["</s>"])


def table(tokenizer: Any, seed: int) -> TabularTarget:
    target = TabularTarget(len(tokenizer), order=1, seed=seed)
    target.tokenizer = tokenizer
    return target


class Tabular(Drafter):
    """Drafts from a table over the drafter's own tokens."""

    def __init__(self, own: TabularTarget, tree: str | None = None) -> None:
        self.own, self.shape = own, parse_tree(tree)
        self.kind = self.shape.kind

    def bind(self, target: Target) -> None:
        self.translation = Translation(self.own.tokenizer, self.own.vocab_size, target)
        self.text = OwnText(self.translation)

    def logits(self, text: Tokens, path: Any = ()) -> Float[Tensor, "vocab"]:
        own = [self.translation.own_ids[token] for token in path]
        return self.translation.spread(self.own.logits([*(self.text.follow(text) or [0]), *own]))

    def propose(self, context: Context, pen: Pen) -> None:
        self.shape.grow(pen, one_by_one(partial(self.logits, context.tokens)))


@pytest.mark.parametrize("sampling", [SAMPLED, *NARROW], ids=str)
@pytest.mark.parametrize("own_is_first", [True, False])
def test_the_text_is_the_targets_by_exact_enumeration(
    sampling: Sampling, own_is_first: bool
) -> None:
    """Where `generate` of transformers is .69 away in total variation at temperature 1."""
    own, target = letters(), pieces()
    own, target = (own, target) if own_is_first else (target, own)
    scored = table(target, 1)
    drafter = bound(Tabular(table(own, 2)), scored)
    setup = Setup(scored, drafter, Token(), [1, 2, 4], gamma=2, sampling=sampling)
    assert_exact(setup, 3)
    if sampling != SAMPLED:  # of two tokens there are fewer rounds to walk
        assert_exact(setup, 2)


@pytest.mark.parametrize("tree", ["2", "iid:2", "paths:2", "top:3"])
def test_trees_too(tree: str) -> None:
    scored, drafter = table(pieces(), 1), Tabular(table(letters(), 2), tree)
    drafter.bind(scored)
    rule: Verifier = Traversal()
    assert_exact(Setup(scored, drafter, rule, [1], gamma=1, sampling=SAMPLED, budget=3), 2)


def random_model(tokenizer: Any, **changes: Any) -> TransformersTarget:
    """Returns a random Llama with a tokenizer."""
    settings = {
        "vocab_size": len(tokenizer), "hidden_size": 16, "intermediate_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
        "max_position_embeddings": 128, "bos_token_id": None, "eos_token_id": None,
        "pad_token_id": None, "initializer_range": 0.5, "tie_word_embeddings": False,
    }  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model: Any = LlamaForCausalLM(LlamaConfig(**settings | changes)).double().eval()
    return TransformersTarget(model, tokenizer)


@cache
def own_model(name: str = "letters") -> TransformersTarget:
    """A random Llama with one of the two tokenizers."""
    return random_model({"letters": letters, "pieces": pieces}[name]())


def parrot(tokenizer: Any, text: list[int]) -> TransformersTarget:
    """Returns a model that goes on after a token as a text does, with the same token last."""
    target = random_model(tokenizer, num_hidden_layers=1)
    model = target.model.model
    with torch.no_grad():
        model.layers[0].self_attn.o_proj.weight.zero_()
        model.layers[0].mlp.down_proj.weight.zero_()
        model.embed_tokens.weight.copy_(torch.eye(len(tokenizer), 16))
        head = torch.zeros(len(tokenizer), 16)
        head[text[1:], text[:-1]] = 9.0
        target.model.lm_head.weight.copy_(head)
    return target


def with_model(target: Target, vocabulary: str, name: str = "letters", **settings: Any) -> SmallLM:
    drafter = bound(SmallLM(own_model(name), vocabulary=vocabulary, **settings), target)
    return drafter


@parametrize_with_checks(
    [
        partial(SmallLM, own_model(), vocabulary="shared"),
        partial(SmallLM, own_model(), vocabulary="text"),
    ]
)
def test_conformance(make: Any, check: Any) -> None:
    check(make)


@pytest.mark.parametrize("tree", [None, "2x2", "top:9x2", "dynamic:2"])
def test_a_trees_distributions_are_those_of_its_paths(tree: str | None) -> None:
    """In one pass for each depth, as by plain passes over the model's own ids."""
    target = own_model("pieces")
    drafter = with_model(target, "shared", tree=tree)
    both = Translation(letters(), len(letters()), target)

    @torch.no_grad()
    def exact(text: list[int], path: list[int]) -> Tensor:
        before = OwnText(both).follow(Tokens(text)) or ()
        ids = [*before, *[both.own_ids[token] for token in path]]
        return both.spread(own_model().model(torch.tensor([ids])).logits[0, -1]).softmax(-1)

    assert_paths_are_followed(drafter, target, exact, [3, 2, 6], top=9)


def greedy_text(ids: list[int], length: int) -> tuple[bytes, bool]:
    """Returns what the model with letters writes after some ids, and whether it ends there."""
    both = Translation(letters(), len(letters()), own_model())
    text = b""
    for _ in range(length):
        with torch.no_grad():
            token = int(own_model().model(torch.tensor([ids])).logits[0, -1].argmax())
        ids = [*ids, token]
        if token in both.own.names:
            return text, True
        text += both.own.join([token])
    return text, False


def test_a_text_is_cut_into_the_targets_tokens() -> None:
    target = own_model("pieces")
    drafter, both = with_model(target, "text"), Translation(letters(), len(letters()), target)
    lengths, ends = set(), set()
    for first in range(1, 7):
        for second in range(1, 7):
            text = Tokens([first, second])
            draft = write_draft(drafter, target, Context(text), gamma=3, sampling=SAMPLED)
            written, has_ended = greedy_text(OwnText(both).follow(text) or [], 8)
            tokens = both.target.continued(both.text_before(text, 2), written) or []
            known = both.target.join(draft.tokens)
            assert written.startswith(known) and draft.probs == (None,) * len(draft)
            if tokens and len(tokens) < 3:
                assert len(draft) == len(tokens) - (not has_ended)
            lengths.add(len(draft))
            ends.add(has_ended)
    assert {0, 3} <= lengths and ends == {True, False}, (lengths, ends)


def parroted(own: Any, spoken: str, target: Any, before: str, gamma: int = 4) -> list[str]:
    """Returns what a model that knows one text drafts after a beginning of it, token by token."""
    scored = table(target, 0)
    ids = [*own(spoken)["input_ids"]]
    drafter = bound(SmallLM(parrot(own, ids), vocabulary="text"), scored)
    text = Tokens(target(before, add_special_tokens=False)["input_ids"])
    draft = write_draft(drafter, scored, Context(text), gamma=gamma, sampling=SAMPLED)
    return target.convert_ids_to_tokens(list(draft.tokens))


NICHI = "日".encode()


def test_characters_are_put_together_and_the_last_token_is_held_back() -> None:
    own = byte_level(b"abc" + NICHI)
    target = unigram(["a", "b", "日", "c", "ca", "▁", "▁a"])
    assert parroted(own, "a日bca", target, "a", 2) == ["日", "b"]
    assert parroted(own, "a日b", target, "a", 1) == ["日"]
    # The model goes round, with at most two tokens of its own for each token, and two more.
    assert parroted(own, "a日bca", target, "a", 4) == ["日", "b", "ca", "日"]
    # Ten tokens of its own are three whole characters, of which the third is held back.
    assert parroted(own, "a日日日日日", target, "a", 4) == ["日", "日"]


def test_after_the_last_token_nothing_is_held_back() -> None:
    own = byte_level(b"abc" + NICHI, specials=["</s>"])
    target = unigram(["a", "b", "日", "c", "ca", "▁", "▁a"])
    assert parroted(own, "a日bc</s>", target, "a") == ["日", "b", "c"]
    assert parroted(own, "a日bc</s>", target, "日b") == ["c"]
    assert parroted(own, "a</s>", target, "a") == []


def test_nothing_is_drafted_within_a_character() -> None:
    target = table(byte_level(b" abc" + NICHI), 0)
    for vocabulary in ("shared", "text"):
        drafter = with_model(target, vocabulary)
        for text, has_draft in (([1], True), ([1, 4], False), ([1, 4, 5], False)):
            draft = draft_after(drafter, target, text, 6)
            assert (len(draft) > 0) == has_draft, (vocabulary, text)


@pytest.mark.parametrize("vocabulary", ["shared", "text"])
def test_the_drafter_drafts_while_its_own_window_lasts(
    vocabulary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = random_model(letters(), max_position_embeddings=12)
    target = own_model("pieces")
    drafter = bound(SmallLM(own, vocabulary=vocabulary), target)
    depths = []
    for length in (1, 9, 10, 12):
        draft = draft_after(drafter, target, [2] * length, 4)
        depths.append(len(draft))
    if vocabulary == "shared":
        assert depths == [4, 4, 3, 1]
    monkeypatch.setattr(CachedText, "follow", None)  # a longer text is not even read
    assert len(draft_after(drafter, target, [2] * 13, 4)) == 0


def test_without_a_token_in_common_only_text_is_left() -> None:
    target = table(byte_level(b"xy"), 0)
    with pytest.raises(ConfigError, match=r"^drafter.vocabulary='shared': model and target have n"):
        with_model(target, "shared")
    with_model(target, "text")


def test_a_folder_is_loaded_once(folder: Path, llama: Any, words: Any) -> None:
    target = TransformersTarget(llama(), words)
    drafters = [SmallLM(str(folder), vocabulary="shared") for _ in range(2)]
    for drafter in drafters:
        rounds = decode(target, drafter, Token(), [3, 4], gamma=3, max_new_tokens=8)
        assert all(round.accepted == round.drafted for round in rounds)
    first, second = (held(drafter, LlamaForCausalLM) for drafter in drafters)
    assert first is second
