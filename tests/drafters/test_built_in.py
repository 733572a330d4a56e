"""The weights that come with the package: small, with cards, of prompts that are measured nowhere."""

import json
from pathlib import Path
from typing import Any

import pytest

from outrider import decode
from outrider.drafter_parts.weights import built_in
from outrider.lab.data import demo
from outrider.plugins.registry import make
from outrider.training import contamination
from outrider.verifiers.token import Token

FAMILIES = ("medusa", "mlp_speculator", "eagle", "eagle3", "small_lm", "bigram")
OPTIONS = {"bigram": {"counts": "smollm2"}, "small_lm": {"model": "smollm2"}}
WEIGHTS = built_in("medusa").parent
PROMPT = "Write a short story about a fox and a crow."


@pytest.fixture(scope="module")
def plain(smollm2: Any) -> list[int]:
    ids = smollm2.encode(PROMPT, chat=True)
    rounds = decode(smollm2, make("drafter", "none"), Token(), ids, max_new_tokens=32)
    return [token for round in rounds for token in round.tokens]


def test_they_are_small_and_every_one_is_tested() -> None:
    assert {place.name for place in WEIGHTS.iterdir() if place.is_dir()} == set(FAMILIES)
    size = sum(place.stat().st_size for place in WEIGHTS.rglob("*") if place.is_file())
    assert size < 40e6


@pytest.mark.parametrize("family", FAMILIES)
def test_it_drafts_at_once_and_leaves_the_text_alone(
    family: str, smollm2: Any, plain: list[int]
) -> None:
    ids = smollm2.encode(PROMPT, chat=True)
    drafter = make("drafter", family, **OPTIONS.get(family, {}))
    rounds = list(decode(smollm2, drafter, Token(), ids, gamma=4, max_new_tokens=32))
    assert [token for round in rounds for token in round.tokens] == plain
    assert sum(round.accepted for round in rounds) >= (1 if family == "bigram" else 4)


@pytest.mark.parametrize("family", FAMILIES)
def test_it_has_a_card(family: str) -> None:
    facts = json.loads((WEIGHTS / family / "facts.json").read_text())
    card = (WEIGHTS / family / "README.md").read_text()
    for name in ("texts", "tokens", "steps", "seconds"):
        assert facts[name] > 0
        assert f"| {name} | {facts[name]} |" in card
    assert f"outrider train drafter={family}" in card
    assert (WEIGHTS / family / "curve.png").is_file()


@pytest.mark.parametrize("family", FAMILIES)
def test_it_never_saw_the_prompts_that_come_with_the_package(family: str, smollm2: Any) -> None:
    folder: Path = WEIGHTS / family
    assert len((folder / contamination.FILE).read_text().split()) > 500
    assert contamination.overlap(folder, smollm2, demo(), chat=True) == []
