"""Texts are the target's own, kept as lines of a file, and the same after an interruption."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from outrider import SampledChance, Sampling
from outrider.data.prompts import Prompt
from outrider.decoding.batches.batch_target import batched
from outrider.extras.training.card import write_fingerprints
from outrider.extras.training.generated_texts import Text, template_around_user
from outrider.lab.runs.identity import FILE, fingerprint


@pytest.fixture
def chatty(target: Any, folder: Path) -> Any:
    """The target with a chat template of plain words."""
    target.tokenizer = AutoTokenizer.from_pretrained(folder)
    target.tokenizer.chat_template = (
        "{% for message in messages %}he is {{ message['content'] }} <eos> {% endfor %}she is "
    )
    return target


def test_the_template_is_split_around_the_words_of_the_user(chatty: Any) -> None:
    before, after = template_around_user(chatty, chat=True)
    assert chatty.tokenizer.convert_ids_to_tokens(before) == ["he", "is"]
    assert chatty.tokenizer.convert_ids_to_tokens(after) == ["<eos>", "she", "is"]
    assert template_around_user(chatty, chat=False) == ([1], [])


def test_the_target_writes_question_and_answer(chatty: Any, collect: Any) -> None:
    texts = collect(chatty, 7)
    before, after = template_around_user(chatty, chat=True)
    assert len({tuple(text.ids) for text in texts}) > 1
    for number, text in enumerate(texts):
        assert text.ids[: text.start] == before
        question = text.ids[text.start : text.answer - len(after)]
        assert text.ids[text.answer - len(after) : text.answer] == after
        assert 1 not in question and len(question) <= 4
        answer = text.ids[text.answer :]
        assert 1 <= len(answer) <= 8
        if number % 2 == 0:  # greedy, so its neighbours make no difference
            begin, chances = [text.ids[: text.answer]], [SampledChance.seeded(0)]
            assert batched(chatty).write(begin, Sampling(), chances, 8) == [answer]


def test_a_run_that_broke_off_writes_the_rest(chatty: Any, collect: Any, tmp_path: Path) -> None:
    whole = collect(chatty, 9, name="a")
    collect(chatty, 6, name="b")
    with (tmp_path / "b.jsonl").open("a") as file:
        file.write('{"ids": [3, ')  # killed while writing
    assert collect(chatty, 9, name="b") == whole
    assert (tmp_path / "a.jsonl").read_text() == (tmp_path / "b.jsonl").read_text()


def test_given_prompts_are_answered_in_turn(target: Any, collect: Any) -> None:
    prompts = [Prompt("1", "x", ("the cat",)), Prompt("2", "x", ("a dog ran", "and ?"))]
    texts = collect(target, 4, prompts)
    assert [text.ids[: text.answer] for text in texts] == [[2, 4], [3, 5, 7]] * 2
    assert all(text.start == text.answer for text in texts)


def test_prompts_that_were_trained_on_are_known_by_their_fingerprints(
    target: Any, tmp_path: Path
) -> None:
    ids = target.encode("the cat sat")
    write_fingerprints(tmp_path, target, [Text([*ids, 9, 9], len(ids), len(ids))])
    known = (tmp_path / FILE).read_text().split()
    assert known == [fingerprint("the cat sat")] != [fingerprint("the dog sat")]
    assert fingerprint("The  cat\nsat ") == fingerprint("the cat sat")
