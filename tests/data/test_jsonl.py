"""Prompts are read from files, and each way in which a file can be wrong gives one line."""

import gzip
import json
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from outrider import ConfigError
from outrider.data import jsonl as data
from outrider.data.prompts import Prompt
from outrider.data.reading import parse
from outrider.plugins.config import build, compose

LINE = {"question_id": 7, "category": "chat", "turns": ["Hello", "And then?"]}
USER = {"role": "user", "content": "x"}
SYSTEM = {"role": "system", "content": "Be brief."}
MESSAGES = [
    SYSTEM,
    {
        "role": "user",
        "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "you"}],
    },
    {"role": "assistant", "content": "Hi."},
    {"role": "user", "content": "And then?"},
]
SHARED = [
    {"from": "gpt", "value": "Hi."},
    {"from": "human", "value": "Hello"},
    {"from": "gpt", "value": "Hm."},
    {"from": "human", "value": "And then?"},
]


def written(folder: Path, *lines: object) -> str:
    path = folder / "data.jsonl"
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )
    return str(path)


def test_a_line_is_a_prompt(tmp_path: Path) -> None:
    path = written(tmp_path, LINE, "", LINE | {"question_id": 8})
    prompts = data.jsonl(path)
    assert prompts[0] == Prompt("7", "chat", ("Hello", "And then?"))
    assert [prompt.id for prompt in prompts] == ["7", "8"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((LINE, "{oops"), "line 2: no JSON (Expecting property name"),
        (({"promt": "x"},), "did you mean 'prompt' by 'promt'?"),
        (({"turns": ["x"]},), "line 1: expected question_id and category and turns (Spec-Bench)"),
        (({"instruction": "x", "input": True},), "line 1: input=True: expected a text"),
        (({"messages": []},), "line 1: messages=[]: expected a list of messages"),
        (({"messages": [USER, SYSTEM]},), "a message of the user after that of the system"),
        ((LINE, LINE), "line 2: id 7: expected another"),
        (('{"prompt": "a", "prompt": "b"}',), "line 1: no JSON (two values of 'prompt'"),
        (("{", '"prompt": "a"', "}"), "line 1: JSON that goes on in the next line: `jq -c . FILE`"),
        (({"prompt": "x", "tools": [{"type": "function"}]},), "line 1: tools=[{'type': "),
    ],
)
def test_a_file_that_does_not_fit(tmp_path: Path, lines: tuple[object, ...], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        data.jsonl(written(tmp_path, *lines))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_may_be_one_list_and_begin_with_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "alpaca.json"
    rows = [{"instruction": "Name three rivers."}, LINE]
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8-sig")
    assert [prompt.turns for prompt in data.jsonl(str(path))] == [
        ("Name three rivers.",),
        ("Hello", "And then?"),
    ]


SETS: dict[str, tuple[dict[str, object], tuple[str, str, tuple[str, ...]]]] = {
    "humaneval": (
        {"task_id": "HumanEval/3", "prompt": "def f():\n", "test": "x", "entry_point": "f"},
        ("HumanEval/3", "code", ("def f():\n",)),
    ),
    "gsm8k": ({"question": "How many?", "answer": "#### 3"}, ("x, line 1", "math", ("How many?",))),
    "mbpp": (
        {"task_id": 11, "text": "Write it.", "code": "def f(): ...", "test_list": ["assert f()"]},
        ("11", "code", ("Write it.",)),
    ),
    "openai": (
        {"messages": MESSAGES},
        ("x, line 1", "chat", ("Be brief.\n\nHello\nyou", "And then?")),
    ),
    "sharegpt": ({"id": "a_0", "conversations": SHARED}, ("a_0", "chat", ("Hello", "And then?"))),
    "alpaca": (
        {"instruction": "Translate.", "input": "Hallo", "output": "Hello"},
        ("x, line 1", "instruction", ("Translate.\n\nHallo",)),
    ),
    "sharegpt with a system prompt": (
        {"system": "Be brief.", "conversations": SHARED},
        ("x, line 1", "chat", ("Be brief.\n\nHello", "And then?")),
    ),
    "openorca": (
        {"system_prompt": "Be brief.", "question": "How many?", "answer": "3"},
        ("x, line 1", "math", ("Be brief.\n\nHow many?",)),
    ),
    "mt-bench of a language": (
        {"question_id": 7, "category": "chat", "turns": ["Qui?"], "language": "fr"},
        ("7", "chat", ("Qui?",), (), "fr"),
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_rows_of_known_sets(name: str) -> None:
    row, expected = SETS[name]
    assert parse(row, "x, line 1") == Prompt(*expected)


def test_a_column_names_the_prompt(tmp_path: Path) -> None:
    row = {"id": 3, "category": "c", "prompt": "no", "said": "yes", "turns": ["a", "b"]}
    row |= {"talk": SHARED}
    path = written(tmp_path, row)
    assert data.jsonl(path, column="said") == [Prompt("3", "c", ("yes",))]
    assert data.jsonl(path, column="turns") == [Prompt("3", "c", ("a", "b"))]
    assert data.jsonl(path, column="talk") == [Prompt("3", "c", ("Hello", "And then?"))]
    for column, line in (
        ("sayd", "line 1: data.column='sayd': did you mean 'said'? There are: category"),
        ("id", "line 1: id=3: expected some text"),
    ):
        with pytest.raises(ConfigError) as caught:
            data.jsonl(path, column=column)
        assert line in str(caught.value)


def test_the_texts_beside_a_named_column_are_kept() -> None:
    row = {
        "input": "Who is it?",
        "context": "It is Ada.",
        "answers": ["Ada"],
        "system": "Be brief.",
    }
    for column, said in (
        ("input", "Who is it?\n\nIt is Ada."),
        ("context", "It is Ada.\n\nWho is it?"),
    ):
        assert parse(row, "x", column).turns == (f"Be brief.\n\n{said}",)
    alpaca = {"instruction": "Double it.", "input": 21}
    assert parse(alpaca, "x", "instruction").turns == ("Double it.\n\n21",)
    assert (
        parse({"turns": ["Of Ada.", "b"], "context": "Ada."} | LINE, "x").turns[0]
        == "Hello\n\nAda."
    )
    number = {"instruction": "Double it, as in 2021.", "input": 21}
    assert parse(number, "x").turns == ("Double it, as in 2021.\n\n21",)
    assert parse({"prompt": "Who?", "instruction": "Who?"}, "x").turns == ("Who?",)
    for context, said in (
        (["It is Ada.", "Or Eve."], "It is Ada.\n\nOr Eve."),
        ([["Ada", ["A \u00e9.", "B."]]], '[["Ada", ["A \u00e9.", "B."]]]'),  # HotpotQA's own files
        ({"title": ["Ada"], "day": date(1815, 12, 10)}, '{"title": ["Ada"], "day": "1815-12-10"}'),
    ):
        hotpot = {"question": "Who is it?", "context": context}
        assert parse(hotpot, "x", "question").turns == (f"Who is it?\n\n{said}",)


@pytest.mark.parametrize("keys", [("role", "content"), ("from", "value"), ("role", "value")])
def test_a_line_may_be_a_list_of_messages(keys: tuple[str, str], tmp_path: Path) -> None:
    speaker, content = keys
    talk = [{speaker: "user", content: "a"}, {speaker: "assistant", content: "b"}]
    for rows, count in (([talk], 1), ([talk, talk], 2), ([[talk, talk]], 2)):
        prompts = data.jsonl(written(tmp_path, *rows))
        assert [prompt.turns for prompt in prompts] == [("a",)] * count


def test_an_odd_line_end_inside_a_string_is_no_line_end(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"prompt": "one\u2028two"}\n{"prompt": "three"}\n', encoding="utf-8")
    assert len(data.jsonl(str(path))) == 2


def test_a_gzip_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(LINE).encode("utf-8-sig")))
    assert data.jsonl(str(path))[0].id == "7"


def test_the_demo_has_two_dozen_prompts_of_six_categories() -> None:
    prompts = data.demo()
    assert Counter(prompt.category for prompt in prompts) == dict.fromkeys(
        ("chat", "code", "summary", "rewriting", "extraction", "translation"), 4
    )
    assert len({prompt.turns for prompt in prompts}) == 24


def test_a_limit_is_spaced_over_the_file() -> None:
    assert len({prompt.category for prompt in data.demo(6)}) == 6
    assert data.demo(100) == data.demo()
    assert len(data.demo(1)) == 1


USABLE = {"id": "a", "prompt": "yes"}
UNUSABLE = [
    {"conversations": []}, {"conversations": [{"from": "gpt", "value": "x"}]}, "{oops",
    {"id": "a", "prompt": "again"}, {"prompt": "half \ud800"}, 3,
]  # fmt: skip


def test_rows_that_are_not_usable_are_skipped_and_counted(tmp_path: Path, capsys: Any) -> None:
    path = written(tmp_path, USABLE, *UNUSABLE, {"id": "b", "prompt": "too"})
    prompts = data.jsonl(path, skip=True)
    assert [prompt.id for prompt in prompts] == ["a", "b"]
    line = capsys.readouterr().err.replace("\n", "")
    assert "6 of 8 records are skipped" in line
    assert "line 2: conversations=[]: expected a list of messages" in line
    assert data.jsonl(path, skip=True, limit=1) == prompts[:1]
    with pytest.raises(ConfigError, match=r"line 2: conversations=\[\]"):
        data.jsonl(path)
    with pytest.raises(ConfigError, match="expected at least one prompt"):
        data.jsonl(written(tmp_path, *UNUSABLE[:2]), skip=True)


def test_the_configs_read_the_same(tmp_path: Path) -> None:
    assert build(compose("compare", ["data=demo", "data.limit=2"]).data) == data.demo(2)
    path = written(tmp_path, LINE, *UNUSABLE)
    settings = ["data=jsonl", f"data.path={path}", "data.column=turns", "data.skip=true"]
    assert build(compose("compare", settings).data) == data.jsonl(path, column="turns", skip=True)
    config = compose("compare", ["data=lines", f"data.path={path}", "data.limit=1"])
    assert len(build(config.data)) == 1
