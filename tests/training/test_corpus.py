"""Texts are the target's own, whole lines of a file, the same after a break."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from outrider import ConfigError, SampledChance, Sampling
from outrider.prompts import Prompt
from outrider.training.corpus import Text, corpus, template

GREEDY, DRAWN = Sampling(), Sampling(temperature=1.0)
SETTINGS: dict[str, Any] = {
    "chat": True,
    "samplings": [GREEDY, DRAWN],
    "question_tokens": 4,
    "max_new_tokens": 8,
    "batch": 3,
}


@pytest.fixture
def chatty(target: Any, folder: Path) -> Any:
    """The target with a chat template of plain words."""
    target.tokenizer = AutoTokenizer.from_pretrained(folder)
    target.tokenizer.chat_template = (
        "{% for message in messages %}he is {{ message['content'] }} <eos> {% endfor %}she is "
    )
    return target


def test_the_template_is_split_around_the_words_of_the_user(chatty: Any) -> None:
    before, behind = template(chatty, chat=True)
    assert chatty.tokenizer.convert_ids_to_tokens(before) == ["he", "is"]
    assert chatty.tokenizer.convert_ids_to_tokens(behind) == ["<eos>", "she", "is"]
    assert template(chatty, chat=False) == ([1], [])


def test_the_target_writes_question_and_answer(chatty: Any, tmp_path: Path, console: Any) -> None:
    texts = corpus(chatty, [], tmp_path / "x.jsonl", count=7, console=console, **SETTINGS)
    before, behind = template(chatty, chat=True)
    assert len({tuple(text.ids) for text in texts}) > 1
    for number, text in enumerate(texts):
        assert text.ids[: text.start] == before
        question = text.ids[text.start : text.answer - len(behind)]
        assert text.ids[text.answer - len(behind) : text.answer] == behind
        assert 1 not in question and len(question) <= 4
        answer = text.ids[text.answer :]
        assert 1 <= len(answer) <= 8
        if number % 2 == 0:  # greedy, whoever its neighbours were
            right = chatty.write([text.ids[: text.answer]], GREEDY, [SampledChance.seeded(0)], 8)
            assert answer == right[0]


def test_a_run_that_broke_off_writes_the_rest(chatty: Any, tmp_path: Path, console: Any) -> None:
    whole = corpus(chatty, [], tmp_path / "a.jsonl", count=9, console=console, **SETTINGS)
    corpus(chatty, [], tmp_path / "b.jsonl", count=6, console=console, **SETTINGS)
    with (tmp_path / "b.jsonl").open("a") as file:
        file.write('{"ids": [3, ')  # killed while writing
    assert corpus(chatty, [], tmp_path / "b.jsonl", count=9, console=console, **SETTINGS) == whole
    assert (tmp_path / "a.jsonl").read_text() == (tmp_path / "b.jsonl").read_text()


def test_given_prompts_are_answered_in_turn(target: Any, tmp_path: Path, console: Any) -> None:
    prompts = [Prompt("1", "x", ("the cat",)), Prompt("2", "x", ("a dog ran", "and ?"))]
    texts = corpus(target, prompts, tmp_path / "x.jsonl", count=4, console=console, **SETTINGS)
    assert [text.ids[: text.answer] for text in texts] == [[2, 4], [3, 5, 7]] * 2
    assert all(text.start == text.answer for text in texts)


def test_another_file_is_refused(target: Any, tmp_path: Path, console: Any) -> None:
    place = tmp_path / "x.jsonl"
    place.write_text(json.dumps({"prompt": "hi"}) + "\n")
    with pytest.raises(ConfigError, match="expected texts of the target"):
        corpus(target, [], place, count=1, console=console, **SETTINGS)


def test_a_text_is_what_a_line_says() -> None:
    assert Text(**json.loads('{"ids": [1, 2], "start": 1, "answer": 1}')) == Text([1, 2], 1, 1)
