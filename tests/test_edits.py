"""The example's two T5 models: texts as transformers writes them, drafts that are accepted."""

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny import subject

from outrider import Sampling, generate
from outrider.data.jsonl import jsonl
from outrider.drafters.small_lm import SmallLM
from outrider.lab.measuring.texts import written
from outrider.plugins.parts import make
from outrider.targets.transformers import TransformersTarget

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples" / "edits"))
import grammar

sys.path.pop(0)


@pytest.fixture(scope="module")
def target(edits: Path) -> Any:
    return TransformersTarget(str(edits / "target"))


@pytest.fixture(scope="module")
def questions(edits: Path) -> list[str]:
    return [prompt.turns[0] for prompt in jsonl(str(edits / "questions.jsonl"), 8)]


def test_both_models_are_ordinary_folders(edits: Path, target: Any) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model = AutoModelForSeq2SeqLM.from_pretrained(edits / "target")
    words = AutoTokenizer.from_pretrained(edits / "draft")
    assert model.config.decoder_start_token_id == 0
    assert words("Alice buys")["input_ids"][-1] == 1
    assert target.encode("Alice buys") == words("Alice buys")["input_ids"]


def test_a_drafter_of_each_kind_writes_the_targets_text(
    edits: Path, target: Any, questions: list[str]
) -> None:
    for prompt in questions:
        text = subject.written(target.model, target.encode(prompt), max_new_tokens=40)
        for drafter in ("prompt_lookup", SmallLM(str(edits / "draft"))):
            assert generate(target, prompt, drafter, max_new_tokens=40).tokens == text


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_drafts_are_accepted(
    edits: Path, target: Any, questions: list[str], temperature: float
) -> None:
    sampling = Sampling(temperature=temperature)
    for drafter, lowest in (
        (SmallLM(str(edits / "draft")), 0.3),
        (make("drafter", "prompt_lookup"), 0.2),
    ):
        counts = [
            generate(target, question, drafter, sampling=sampling).counts for question in questions
        ]
        alpha = sum(count.accepted for count in counts) / sum(count.tested for count in counts)
        assert lowest < alpha < 0.99


def test_texts_are_cached_by_their_source(
    edits: Path, target: Any, questions: list[str], tmp_path: Path
) -> None:
    prompts = [target.encode(question) for question in questions[:3]]
    options = {"batch": 2, "folder": tmp_path}
    first = written(target, prompts, Sampling(), 40, **options)
    assert len(set(map(tuple, first))) == 3
    assert len(list(tmp_path.rglob("*.json"))) == 3
    target_again: Any = make("target", str(edits / "target"))
    target_again.write = None
    assert written(target_again, prompts[::-1], Sampling(), 40, **options) == first[::-1]


@pytest.mark.usefixtures("drawn_once")
def test_compare_measures_alpha_by_both_protocols(run: Any, edits: Path, tmp_path: Path) -> None:
    printed = run.done(
        "compare", "target=transformers", f"target.model={edits / 'target'}", "data=jsonl",
        f"data.path={edits / 'questions.jsonl'}", "data.limit=4", "max_new_tokens=32",
        f"drafters=[prompt_lookup,{{drafter: small_lm, model: {edits / 'draft'}}}]",
        "cache=false", f"hydra.run.dir={tmp_path / 'out'}",
    )  # fmt: skip
    assert "prompt_lookup" in printed
    rows = json.loads((tmp_path / "out" / "comparison.json").read_text())["rows"]
    by_drafter = {row["drafter"]: row for row in rows}
    assert 0.3 < by_drafter["small_lm"]["alpha"] < 0.99
    for row in rows:  # greedy texts are decoded as written, so the expectation is exact
        assert row["alpha_tested"] == pytest.approx(row["expected_alpha_tested"], abs=1e-9)


def test_spoiled_sentences_use_only_known_words() -> None:
    draw = random.Random(0)
    known = set(grammar.vocabulary())
    for _ in range(300):
        sentence = grammar.clean(draw)
        assert {*sentence, *grammar.spoiled(sentence, draw)} <= known
        assert sentence[-1] == "."
        assert not any(word.isdigit() for word in sentence)
    assert grammar.number(42) == ["forty", "two"]
    assert [len(grammar.number(value)) for value in (1, 19, 20, 99)] == [1, 1, 1, 2]
