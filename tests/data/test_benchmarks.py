"""The sets that others compare on: their prompts and categories, and what is refused."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from outrider.base.errors import ConfigError
from outrider.data.benchmarks import SETS, deepspec, speed_bench


@pytest.fixture
def deepspecs(tmp_path: Path) -> Path:
    for name, count in SETS.items():
        rows = [{"turns": [f"{name} {number}", "And then?"]} for number in range(count + 1)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def test_all_sets_are_read_with_the_prompts_that_deepspec_takes(deepspecs: Path) -> None:
    prompts = deepspec(str(deepspecs))
    assert [prompt.category for prompt in prompts] == [
        name for name, count in SETS.items() for _ in range(count)
    ]
    assert len({prompt.id for prompt in prompts}) == len(prompts)
    shuffled = [f"aime25 {number}" for number in range(31)]
    random.Random(980406).shuffle(shuffled)
    own = [prompt.turns for prompt in prompts if prompt.category == "aime25"]
    assert own == [(text,) for text in shuffled[:30]]


def test_some_prompts_of_some_sets(deepspecs: Path) -> None:
    prompts = deepspec(str(deepspecs), ["mt-bench", "gsm8k"], 2)
    assert [prompt.category for prompt in prompts] == ["mt-bench"] * 2 + ["gsm8k"] * 2


@pytest.mark.parametrize(
    ("content", "settings", "line"),
    [
        (None, {"sets": ["gsm9k"]}, "data.sets='gsm9k': did you mean 'gsm8k'"),
        (None, {}, r"data\.path=.*: expected a folder with gsm8k\.jsonl"),
        ("version https://git-lfs.github.com/spec/v1\n", {}, "expected the file itself: `git lfs"),
        ('{"prompt": "x"}', {}, r"gsm8k\.jsonl, line 1: data\.column='turns'"),
    ],
)
def test_other_sets_and_files_are_refused(
    content: str | None, settings: Any, line: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "gsm8k.jsonl").write_text(content)
    with pytest.raises(ConfigError, match=line):
        deepspec(str(tmp_path), **settings)


def row(number: int, category: str, tier: str | None, text: str = "Name a river.") -> Any:
    return {"question_id": number, "category": category, "sub_category": tier, "turns": [text]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    splits = {
        "qualitative": [row(1, "math", None), row(2, "coding", "python")],
        "throughput_1k": [row(1, "mixed", "low_entropy"), row(2, "mixed", "high_entropy")],
    }
    for split, rows in splits.items():
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def test_categories_are_those_of_the_split(folder: Path) -> None:
    assert [prompt.category for prompt in speed_bench(str(folder))] == ["math", "coding"]
    prompts = speed_bench(str(folder), "throughput_1k")
    assert [prompt.category for prompt in prompts] == ["low", "high"]
    assert [p.id for p in speed_bench(str(folder), "throughput_1k", "high")] == ["2"]
