"""Rows of the field become texts: masks are kept, and each answer of a conversation is one."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from outrider import ConfigError
from outrider.extras.training.generated_texts import Text
from outrider.extras.training.rows import read_rows

TEMPLATE = (
    "{% for message in messages %}{{ {'user': 'he', 'system': 'the', 'tool': 'a'}"
    ".get(message['role'], 'she') }} is {{ message['content'] }} <eos> {% endfor %}"
    "{% if add_generation_prompt %}she is {% endif %}"
)
TALK = ["a cat", "the dog sat", "and ?", "a dog"]
SHAREGPT = ("from", "value", "human", "gpt")
OPENAI = ("role", "content", "user", "assistant")
MASKED = {"input_ids": [2, 3, 4, 5, 6, 7, 8], "loss_mask": [0, 0, 1, 1, 0, 1, 0], "seq_len": 7}
GAPS = Text([2, 3, 4, 5, 6, 7, 8], 2, 5, [0, 0, 1, 1, 0, 1, 0])


@pytest.fixture
def chatty(target: Any, words: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(words, "chat_template", TEMPLATE)
    return target


def written(path: Path, *rows: Any) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def saved(folder: Path, rows: list[Any]) -> str:
    """Writes what `Dataset.save_to_disk` writes: two streams of Arrow's, and their names."""
    folder.mkdir()
    table = pyarrow.Table.from_pylist(rows)
    files = [f"data-0000{number}-of-00002.arrow" for number in range(2)]
    for file, part in zip(files, (table[:1], table[1:]), strict=True):
        with pyarrow.ipc.new_stream(folder / file, table.schema) as stream:
            stream.write_table(part)
    state = {"_data_files": [{"filename": file} for file in files], "_format_type": "torch"}
    (folder / "state.json").write_text(json.dumps(state))
    return str(folder)


def test_a_mask_says_which_ids_are_learned(target: Any, tmp_path: Path) -> None:
    whole = {"input_ids": [2, 3, 4], "loss_mask": [False, True, True]}
    nothing = {"input_ids": [2, 3], "loss_mask": [0, 0]}
    texts = read_rows(written(tmp_path / "x.jsonl", MASKED, whole, nothing), target, 9)
    assert texts == [GAPS, Text([2, 3, 4], 1, 1)]
    assert texts[0].own == [False, False, True, True, False, True, False]
    assert texts[0].written == [[4, 5], [7]]
    assert texts[1].written == [[3, 4]] and [text.row for text in texts] == [0, 1]


def test_a_saved_data_set_and_a_parquet_file_hold_the_same_rows(
    target: Any, tmp_path: Path
) -> None:
    rows = [MASKED, {"input_ids": [9, 8], "loss_mask": [0, 1], "seq_len": 2}, MASKED]
    right = [GAPS, Text([9, 8], 1, 1), GAPS]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "x.parquet")
    assert read_rows(saved(tmp_path / "set", rows), target, 9) == right
    assert read_rows(str(tmp_path / "x.parquet"), target, 9) == right
    assert read_rows(str(tmp_path / "x.parquet"), target, 2) == right[:2]


@pytest.mark.parametrize("column", ["conversations", "messages"])
@pytest.mark.parametrize("keys", [SHAREGPT, OPENAI])
def test_each_answer_of_a_conversation_is_a_text(
    column: str, keys: tuple[str, str, str, str], chatty: Any, tmp_path: Path
) -> None:
    speaker, content, *speakers = keys
    talk = [{speaker: speakers[i % 2], content: words} for i, words in enumerate(TALK)]
    row = {"id": 7, column: [{speaker: "system", content: "small"}, *talk]}
    texts = read_rows(written(tmp_path / "x.jsonl", row), chatty, 9)
    one, two = (" ".join(chatty.tokenizer.convert_ids_to_tokens(text.ids)) for text in texts)
    first = "the is small <eos> he is a cat <eos> she is the dog sat <eos>"
    assert (one, two) == (first, f"{first} he is and ? <eos> she is a dog <eos>")
    learned = [chatty.tokenizer.decode(text.ids[text.start :]) for text in texts]
    assert learned == ["the dog sat <eos>", "a dog <eos>"]
    assert all(text.written == [text.ids[text.start :]] for text in texts)


def test_the_opening_of_a_conversation_is_context(chatty: Any, tmp_path: Path) -> None:
    talk = [{"from": who, "value": "a cat"} for who in ("gpt", "human", "gpt")]
    (text,) = read_rows(written(tmp_path / "x.jsonl", {"conversations": talk}), chatty, 9)
    assert text.start == len(text.ids) - 3


def test_an_answer_may_open_in_another_way_than_the_prompt_for_it(
    chatty: Any, words: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = [{"role": "user", "content": "a cat"}, {"role": "assistant", "content": "the dog"}]
    path = written(tmp_path / "x.jsonl", {"messages": talk})
    monkeypatch.setattr(words, "chat_template", TEMPLATE.replace("she is {%", "she is small {%"))
    (text,) = read_rows(path, chatty, 9)
    assert words.convert_ids_to_tokens(text.ids[text.start :]) == ["the", "dog", "<eos>"]
    last = "{% for message in messages[-1:] %}"
    monkeypatch.setattr(words, "chat_template", last + TEMPLATE.partition("%}")[2])
    with pytest.raises(ConfigError, match=r"messages\[1\]: the chat template changes what came"):
        read_rows(path, chatty, 9)


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (
            {"messages": [], "conversations": [{"from": "gpt", "value": "x", "tool_calls": [1]}]},
            r"\[0\].tool_calls",
        ),
        ({"input_ids": [2, 31], "loss_mask": [0, 1]}, r"line 1: input_ids=\[2, 31\]: ex"),
        ({"messages": [{"role": "user", "content": "a"}]}, "at least one row with something"),
    ],
)
def test_rows_that_are_no_texts(row: Any, line: str, chatty: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=line):
        read_rows(written(tmp_path / "x.jsonl", row), chatty, 9)


def test_the_learned_tokens_of_rows_are_counted(target: Any, tmp_path: Path, capsys: Any) -> None:
    """The first id is never learned, nor what is cut; a row keeps its number behind others."""
    plain = {"input_ids": [2, 3, 4], "loss_mask": [1, 1, 1]}
    nothing = {"input_ids": [2, 3], "loss_mask": [1, 0]}
    long = {"input_ids": [3] * 300, "loss_mask": [0, 1] * 150}
    texts = read_rows(written(tmp_path / "x.jsonl", nothing, plain, long), target, 60_000)
    assert texts == [Text([2, 3, 4], 1, 1), Text([3] * 256, 1, 256, [0, 1] * 128)]
    assert [text.row for text in texts] == [1, 2]
    said = " ".join(capsys.readouterr().err.split())
    assert "x.jsonl: 2 of 60000 texts, from 3 rows, with 130 tokens to learn; 1 left out" in said
    assert said.endswith("with none; 1 cut to the target's longest text")


def test_a_message_keeps_all_that_the_template_shows_and_the_rest_is_said(
    chatty: Any, words: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    ask, answer = {"from": "human", "value": "a cat", "name": None}, {"from": "gpt", "value": "ran"}
    row = {"conversations": [ask, {**answer, "reasoning_content": "big dog", "weight": 1}]}
    path = written(tmp_path / "x.jsonl", row)
    (text,) = read_rows(path, chatty, 9)
    assert words.decode(text.ids[text.start :]) == "ran <eos>"
    said = " ".join(capsys.readouterr().err.split())
    assert said.endswith("; the chat template does not show reasoning_content, weight of messages")
    shown = TEMPLATE.replace("is {{", "is {{ message.reasoning_content }} {{")
    monkeypatch.setattr(words, "chat_template", shown)
    (text,) = read_rows(path, chatty, 9)
    assert words.decode(text.ids[text.start :]) == "big dog ran <eos>"
    said = " ".join(capsys.readouterr().err.split())
    assert said.endswith("; the chat template does not show weight of messages")


def test_a_system_prompt_beside_a_conversation_is_its_first_message(
    chatty: Any, tmp_path: Path
) -> None:
    talk = [{"role": "user", "content": "a cat"}, {"role": "assistant", "content": "the dog"}]
    row = {"system": "small", "messages": talk}
    (text,) = read_rows(written(tmp_path / "x.jsonl", row), chatty, 9)
    assert chatty.tokenizer.decode(text.ids).startswith("the is small <eos> he is a cat")
