"""`outrider record` keeps a card, from which `outrider compare` has the figures of a direct run."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

OF_CARD = ("max_new_tokens=12", "turns=1", "sampling=standard")


@pytest.fixture
def card(run: Any, quick: list[str]) -> Path:
    tree = "{drafter: token_recycling, verifier: candidates}"
    drafters = f"drafters=[bigram,{{drafter: medusa, path: untrained}},{tree}]"
    run.done("record", *quick, *OF_CARD, drafters, "gamma=3", "out=card", "keep=all")
    return Path("card")


def rows(folder: str) -> dict[str, Any]:
    found = json.loads(Path(folder, "comparison.json").read_text())
    return {row["drafter"]: row for row in found["rows"]}


def test_a_card_has_the_figures_of_a_direct_run(run: Any, quick: list[str], card: Path) -> None:
    rules = ("verifiers=[token,block,lenient]", "policies=[fixed,confidence]", "reports=[]")
    given = "drafters=[bigram,{drafter: medusa, path: untrained},prompt_lookup]"
    direct = (*quick, *OF_CARD, *rules, given, "protocol=overlap", "gamma=3")
    run.done("compare", *direct, "hydra.run.dir=direct")
    names = "drafters=[bigram,medusa,prompt_lookup]"  # the last runs by itself
    printed = run.done("compare", "card=card", *rules, names, "gamma=3", "hydra.run.dir=replay")
    assert "±" not in printed
    one, other = rows("direct"), rows("replay")
    assert one.keys() == other.keys() and len(one) == 18
    for name, row in one.items():
        for rate in ("alpha", "alpha_rule", "coverage", "expected_block_efficiency"):
            assert other[name][rate] == pytest.approx(row[rate], abs=1e-6), (name, rate)


def test_a_sketch_says_its_error_beside_each_figure(run: Any, quick: list[str]) -> None:
    words = (*quick, *OF_CARD, "drafters=[{drafter: medusa, path: untrained}]")
    run.done("record", *words, "out=card", "keep=2")
    assert run.done("record", *words, "out=card", "keep=2")  # which has nothing left to do
    printed = run.done("compare", "card=card", "verifier=lenient", "hydra.run.dir=replay")
    assert "±" in printed and "how far a figure may be off" in printed
    errors = json.loads(Path("replay/comparison.json").read_text())["sketch_error"]["medusa"]
    assert errors["alpha_rule"] > 1e-3 and errors["alpha"] < 1e-5


def test_a_card_names_drafters_that_it_leaves_out(run: Any, card: Path) -> None:
    status, _, said = run("compare", "card=card", "hydra.run.dir=replay")
    assert status == 0 and "token_recycling (candidates)" in said
    assert rows("replay").keys() == {"bigram", "medusa"}


def test_a_card_is_a_model_index_of_the_hub(card: Path) -> None:
    text = (card / "README.md").read_text().split("---\n")
    (model,) = yaml.safe_load(text[1])["model-index"]
    values = {
        (it["metrics"][0]["type"], it["metrics"][0]["name"]): it["metrics"][0]["value"]
        for it in model["results"]
    }
    assert values["alpha", "alpha of bigram"] == pytest.approx(rows("card")["bigram"]["alpha"])
    assert "| bigram" in text[2]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (("drafters=[medusa]", "gamma=5"), "gamma=5: expected at most 3, as deep as"),
        (("drafters=[early_exit]",), "EarlyExit"),
    ],
)
def test_a_setting_that_a_card_lacks_is_refused(
    run: Any, card: Path, settings: tuple[str, ...], expected: str
) -> None:
    assert expected in run.refused("compare", "card=card", "hydra.run.dir=replay", *settings)
