"""Prompts from files, and one line for each way in which a file can be wrong."""

import json
from collections import Counter
from pathlib import Path

import pytest

from outrider import ConfigError
from outrider.config import build, compose
from outrider.lab import data

LINE = {"question_id": 7, "category": "chat", "turns": ["Hello", "And then?"]}


def written(folder: Path, *lines: object) -> str:
    path = folder / "data.jsonl"
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )
    return str(path)


def test_a_line_is_a_prompt(tmp_path: Path) -> None:
    path = written(tmp_path, LINE, "", LINE | {"question_id": 8})
    prompts = data.read_jsonl(path)
    assert prompts[0] == data.Prompt("7", "chat", ("Hello", "And then?"))
    assert [prompt.id for prompt in prompts] == ["7", "8"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((LINE, "{oops"), "line 2: no JSON (Expecting property name"),
        (([1],), "line 1: expected an object with question_id, category, turns"),
        (({"turns": ["x"]},), "line 1: expected an object with question_id, category, turns"),
        ((LINE | {"turns": []},), "line 1: turns=[]: expected a list of strings"),
        ((LINE | {"turns": [3]},), "line 1: turns=[3]: expected a list of strings"),
        ((LINE, LINE), "line 2: question_id 7 a second time"),
        ((), "expected at least one prompt, the file is empty"),
    ],
)
def test_a_file_that_does_not_fit(tmp_path: Path, lines: tuple[object, ...], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        data.read_jsonl(written(tmp_path, *lines))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file() -> None:
    with pytest.raises(ConfigError, match=r"data\.path='gone\.jsonl': expected a file that exists"):
        data.jsonl("gone.jsonl")


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
    with pytest.raises(ConfigError, match=r"data\.limit=0: expected a whole number of at least 1"):
        data.demo(0)


def test_the_configs_read_the_same(tmp_path: Path) -> None:
    assert build(compose("compare", ["data=demo", "data.limit=2"]).data) == data.demo(2)
    path = written(tmp_path, LINE)
    config = compose("compare", ["data=jsonl", f"data.path={path}"])
    assert build(config.data) == data.read_jsonl(path)
