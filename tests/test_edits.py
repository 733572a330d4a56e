"""The example's two T5 models: texts as transformers writes them, drafts that are accepted."""

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider.targets.transformers import TransformersTarget

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples" / "edits"))
import grammar

sys.path.pop(0)


@pytest.fixture(scope="module")
def target(edits: Path) -> Any:
    return TransformersTarget(str(edits / "target"))


def test_both_models_are_ordinary_folders(edits: Path, target: Any) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model = AutoModelForSeq2SeqLM.from_pretrained(edits / "target")
    words = AutoTokenizer.from_pretrained(edits / "draft")
    assert model.config.decoder_start_token_id == 0
    assert words("Alice buys")["input_ids"][-1] == 1
    assert target.encode("Alice buys") == words("Alice buys")["input_ids"]


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
