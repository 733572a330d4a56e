"""The weights that come with the package: small, with cards, and not trained on its prompts."""

import json
from typing import Any

import pytest
from tiny.drafters import bound, tokens_of

from outrider import Context, Sampling, Tokens, decode
from outrider.data.jsonl import demo
from outrider.drafters.parts.networks.weights import built_in, is_smollm2
from outrider.lab.runs.identity import FILE, fingerprint
from outrider.plugins.parts import make
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import write_draft
from outrider.verifiers.token import Token

FAMILIES = ("medusa", "mlp_speculator", "eagle", "eagle3", "small_lm", "bigram")
OPTIONS = {"bigram": {"counts": "smollm2"}}
WEIGHTS = built_in("medusa").parent
PROMPT = "Write a short story about a fox and a crow."


@pytest.fixture(scope="module")
def plain(smollm2: Any) -> list[int]:
    ids = smollm2.encode(PROMPT, chat=True)
    rounds = decode(smollm2, make("drafter", "none"), Token(), ids, max_new_tokens=20)
    return tokens_of(rounds)


def test_built_in_drafters_are_small_and_tested() -> None:
    assert {path.name for path in WEIGHTS.iterdir() if path.is_dir()} == set(FAMILIES)
    size = sum(path.stat().st_size for path in WEIGHTS.rglob("*") if path.is_file())
    assert size < 15e6


@pytest.mark.parametrize("family", FAMILIES)
def test_a_built_in_drafter_drafts_at_once_and_leaves_the_text_alone(
    family: str, smollm2: Any, plain: list[int]
) -> None:
    ids = smollm2.encode(PROMPT, chat=True)
    drafter = make("drafter", family, **OPTIONS.get(family, {}))
    rounds = list(decode(smollm2, drafter, Token(), ids, gamma=4, max_new_tokens=20))
    assert tokens_of(rounds) == plain
    assert sum(round.accepted for round in rounds) >= (1 if family == "bigram" else 3)


def test_small_lm_is_the_built_in_model_for_smollm2_alone(smollm2: Any, llama: Any) -> None:
    assert is_smollm2(smollm2)
    assert not is_smollm2(TransformersTarget(llama()))
    prefix = Context(Tokens(smollm2.encode(PROMPT, chat=True)))
    drafts = []
    for settings in ({}, {"model": "smollm2"}, {"layers": 2}):
        drafter = bound(make("drafter", "small_lm", **settings), smollm2)
        drafts.append(write_draft(drafter, smollm2, prefix, gamma=2, sampling=Sampling()).tokens)
    assert drafts[0] == drafts[1] != drafts[2]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_built_in_drafter_has_a_card(family: str) -> None:
    facts = json.loads((WEIGHTS / family / "facts.json").read_text())
    card = (WEIGHTS / family / "README.md").read_text()
    for name in ("texts", "tokens", "steps", "seconds"):
        assert facts[name] > 0
        assert f"| {name} | {facts[name]} |" in card
    assert f"outrider train drafter={family}" in card
    assert (WEIGHTS / family / "curve.png").is_file()


@pytest.mark.parametrize("family", FAMILIES)
def test_no_built_in_drafter_was_trained_on_the_packaged_prompts(family: str, smollm2: Any) -> None:
    own, shared = WEIGHTS / family / FILE, WEIGHTS / FILE  # the networks learned from one corpus
    known = set((own if own.is_file() else shared).read_text().split())
    assert len(known) > 500
    for prompt in demo():
        ids = smollm2.encode_turns(prompt.turns[:1], chat=True)
        words = smollm2.tokenizer.decode(ids, skip_special_tokens=True)
        assert fingerprint(words) not in known
