"""Grammars: masked sampling exactly, every text valid, and drafts that keep to the grammar."""

import json
import re
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import pytest
import tokenizers
import torch
from tiny.exact import assert_follows, texts_by_chance
from transformers import PreTrainedTokenizerFast

import outrider
from outrider import ConfigError, Sampling, TargetError
from outrider.drafters.random import Random
from outrider.extras.serving.transformers import Speculation
from outrider.targets.tabular import TabularTarget
from outrider.testing import tiny_targets

SPELLED = {1: "a", 2: "b", 3: "ab"}
PATTERN = "a(b|ab)*b?a?"
PROMPT = [2, 1]
WHOLE = [
    text
    for length in range(10)
    for text in map("".join, product("ab", repeat=length))
    if re.fullmatch(PATTERN, text)
]
"""The texts of the pattern, longer than any that is asked about."""


def continues(ids: Sequence[int]) -> bool:
    """Returns whether a text of the pattern begins with these tokens."""
    return any(text.startswith("".join(SPELLED[id] for id in ids)) for text in WHOLE)


def masked(target: TabularTarget, text: tuple[int, ...]) -> torch.Tensor:
    """Returns the target's logits after a text, of the tokens that the pattern allows."""
    ended = "".join(SPELLED[id] for id in text) in WHOLE
    allowed = [ended, *(continues([*text, id]) for id in SPELLED)]
    logits = target.logits([*PROMPT, *text])
    return logits.masked_fill(~torch.tensor(allowed), -torch.inf)


@pytest.mark.parametrize(
    ("drafter", "rule", "budget", "steer"),
    [
        (Random(), "token", 2, True),
        (Random(), "block", 2, False),
        (Random(tree="iid:2"), "multi_step", 2, True),
        (Random(tree="2x1"), "without_replacement", 4, True),
        ("prompt_lookup", "token", 2, True),
    ],
)
def test_the_distribution_is_that_of_masked_sampling(
    drafter: Any, rule: str, budget: int, steer: bool, spelling: TabularTarget
) -> None:
    options = {"budget": budget, "constraint": outrider.regex(PATTERN, steer=steer)}
    play = texts_by_chance(spelling, PROMPT, drafter, rule, length=2, **options)
    assert_follows(play, partial(masked, spelling), 2, eos=0)


def test_forced_tokens_are_drafted(spelling: TabularTarget) -> None:
    """Nothing in the prompt can be copied, and nothing else is possible."""
    options: dict[str, Any] = {"gamma": 3, "constraint": outrider.regex("bbba")}
    text = outrider.generate(spelling, [1], "prompt_lookup", **options)
    assert text.tokens == [2, 2, 2, 1]
    assert [round.draft for round in text.rounds] == [(2, 2, 2)]
    assert text.stop == "constraint"  # no token may follow
    options["constraint"] = outrider.regex("bbba", steer=False)
    text = outrider.generate(spelling, [1], "prompt_lookup", **options)
    assert text.tokens == [2, 2, 2, 1] and len(text.rounds) > 1


def test_a_model_without_an_end_token_keeps_to_the_grammar() -> None:
    """Token 0 was taken for the end, and a draft past the end of the grammar was an error."""
    target = TabularTarget(4, order=2, seed=1)
    target.tokenizer = tiny_targets.letters(4)
    pattern = "(a|ba)(a|b)?b"
    for steer, seed in product((True, False), range(6)):
        text = outrider.generate(
            target,
            [1],
            "random",
            constraint=outrider.regex(pattern, steer=steer),
            sampling=Sampling(1.0, seed=seed),
        )
        assert text.stop == "constraint" and re.fullmatch(pattern, text.text)


def test_a_text_that_leaves_the_grammar_is_no_result(spelling: TabularTarget) -> None:
    begun = outrider.regex("ab").begin(spelling, PROMPT)
    with pytest.raises(TargetError, match=r"^constraint: the grammar does not allow token 2"):
        begun.ends([*PROMPT, 2])


def test_positions_may_be_asked_about_in_any_order(spelling: TabularTarget) -> None:
    begun, zeros = outrider.regex("a(ba)*").begin(spelling, PROMPT), torch.zeros(4)
    asked = [[1], [], [1, 2, 1], [1, 2], [3, 1, 3], [1, 0], [2], [1]]
    allowed = [torch.isfinite(begun.logits([*PROMPT, *ids], zeros)).tolist() for ids in asked]
    start, end = [False, True, False, True], [True, False, True, False]
    over, fault = [True, False, False, False], [True] * 4
    assert allowed == [end, start, end, start, fault, over, fault, end]


def test_json_of_a_schema_comes_out_of_a_model(ascii_model: Any) -> None:
    model, tokenizer = ascii_model
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "maximum": 99}, "ok": {"type": "boolean"}},
        "required": ["n", "ok"],
        "additionalProperties": False,
    }
    speculation = Speculation(
        "prompt_lookup",
        tokenizer=tokenizer,
        constraint=outrider.json_schema(schema, whitespace=False),
    )
    prompts = tokenizer(['{"n":1', '{"ok":'], return_tensors="pt")
    ids = model.generate(**prompts, max_new_tokens=40, custom_generate=speculation)
    for row in ids:
        text = tokenizer.decode(row[prompts["input_ids"].shape[1] :], skip_special_tokens=True)
        assert set(json.loads(text)) == {"n", "ok"}
    assert sum(text.counts.accepted for text in speculation.generations) > 0


@pytest.fixture(scope="session")
def ascii_model(llama: Any) -> Any:
    """A tiny model of single characters, and its tokenizer."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: id for id, token in enumerate(["<pad>", "<eos>", *letters])}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, merges=[]))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<eos>", pad_token="<pad>", padding_side="left"
    )
    return llama(vocab_size=len(vocab)), tokenizer


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: outrider.regex("a("), "constraint: at 1(8): invalid regex"),
        (lambda: outrider.json_schema("{oops"), "constraint.schema='{oops': no JSON (Expecting"),
        (lambda: outrider.json_schema("@gone"), "constraint.schema='@gone': No such file or"),
    ],
)
def test_a_grammar_that_is_not_valid_is_one_line(make: Any, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value).startswith(line) and "\n" not in str(caught.value)
