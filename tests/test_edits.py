"""The example's pair of T5 models: texts as transformers writes them, and an alpha that is real."""

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from outrider import Sampling, generate
from outrider.drafters.small_lm import SmallLM
from outrider.lab.data import jsonl
from outrider.lab.texts import written
from outrider.plugins.registry import make
from outrider.targets.transformers import TransformersTarget

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples" / "edits"))
import grammar

sys.path.pop(0)


@pytest.fixture(scope="module")
def target(edits: Path) -> Any:
    return TransformersTarget(str(edits / "target"))


@pytest.fixture(scope="module")
def asked(edits: Path) -> list[str]:
    return [prompt.turns[0] for prompt in jsonl(str(edits / "questions.jsonl"), 8)]


def test_the_pair_is_of_ordinary_folders(edits: Path, target: Any) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model = AutoModelForSeq2SeqLM.from_pretrained(edits / "target")
    words = AutoTokenizer.from_pretrained(edits / "draft")
    assert model.config.decoder_start_token_id == 0
    assert words("Alice buys")["input_ids"][-1] == 1
    assert target.encode("Alice buys") == words("Alice buys")["input_ids"]


def test_a_drafter_of_each_kind_writes_the_targets_text(
    edits: Path, target: Any, asked: list[str]
) -> None:
    for prompt in asked:
        ids = torch.tensor([target.encode(prompt)])
        text = target.model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=40
        )[0, 1:].tolist()
        for drafter in ("shallow_aggressive", "prompt_lookup", SmallLM(str(edits / "draft"))):
            assert generate(target, prompt, drafter, max_new_tokens=40).tokens == text


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_drafts_are_accepted(
    edits: Path, target: Any, asked: list[str], temperature: float
) -> None:
    sampling = Sampling(temperature=temperature)
    for drafter, least in (
        (SmallLM(str(edits / "draft")), 0.3),
        (make("drafter", "shallow_aggressive"), 0.2),
    ):
        found = [generate(target, each, drafter, sampling=sampling).counts for each in asked]
        alpha = sum(each.accepted for each in found) / sum(each.tested for each in found)
        assert least < alpha < 0.99


def test_a_text_is_kept_by_its_source(target: Any, asked: list[str], tmp_path: Path) -> None:
    prompts = [target.encode(each) for each in asked[:3]]
    told = {"batch": 2, "folder": tmp_path}
    first = written(target, prompts, Sampling(), 40, **told)
    assert len(set(map(tuple, first))) == 3
    assert len(list(tmp_path.rglob("*.json"))) == 3
    target_again = TransformersTarget(target.model, target.tokenizer)
    target_again.write = None
    assert written(target_again, prompts[::-1], Sampling(), 40, **told) == first[::-1]


def test_compare_takes_alpha_by_both_protocols(run: Any, edits: Path, tmp_path: Path) -> None:
    status, printed, complaint = run(
        "compare", "target=transformers", f"target.model={edits / 'target'}", "data=jsonl",
        f"data.path={edits / 'questions.jsonl'}", "data.limit=4", "max_new_tokens=32",
        f"drafters=[prompt_lookup,shallow_aggressive,{{drafter: small_lm, model: {edits / 'draft'}}}]",
        "cache=false", f"hydra.run.dir={tmp_path / 'out'}",
    )  # fmt: skip
    assert status == 0, complaint
    assert "shallow_aggressive" in printed
    rows = json.loads((tmp_path / "out" / "comparison.json").read_text())["rows"]
    found = {row["drafter"]: row for row in rows}
    assert 0.3 < found["small_lm"]["alpha"] < 0.99
    for row in rows:  # a greedy text that ends is decoded as it was written: all was foreseen
        assert row["alpha_tested"] == pytest.approx(row["expected_alpha_tested"], abs=1e-9)


def test_the_grammar_spoils_only_what_it_says() -> None:
    draw = random.Random(0)
    known = set(grammar.vocabulary())
    for _ in range(300):
        sentence = grammar.clean(draw)
        assert {*sentence, *grammar.spoiled(sentence, draw)} <= known
        assert sentence[-1] == "."
        assert not any(word.isdigit() for word in sentence)
    assert grammar.number(42) == ["forty", "two"]
    assert [len(grammar.number(value)) for value in (1, 19, 20, 99)] == [1, 1, 1, 2]
