"""The sentences of the example of edits, and what spoils them."""

import random
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples" / "edits"))
import grammar

sys.path.pop(0)


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
