"""Data sets by name: splits and tiers are told apart, and placeholders are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.base.errors import ConfigError
from outrider.data.reading import PLACEHOLDER
from outrider.data.speed_bench import speed_bench


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


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"split": "throughput_4k"}, "data.split='throughput_4k': expected one of qualitative"),
        ({"split": "throughput_2k"}, "expected a folder with throughput_2k.jsonl"),
        ({"entropy": "low"}, "data.entropy='low': .*in a throughput split"),
        ({"split": "throughput_1k", "entropy": "lo"}, "data.entropy='lo': expected low, mixed"),
    ],
)
def test_other_splits_are_refused(settings: Any, line: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match=line):
        speed_bench(str(folder), **settings)


def test_placeholders_are_refused(tmp_path: Path) -> None:
    hidden = row(1, "math", None, f"{PLACEHOLDER} USING SPECDEC_BENCH")
    (tmp_path / "qualitative.jsonl").write_text(json.dumps(hidden))
    with pytest.raises(ConfigError, match=r"line 1: expected the prompt itself"):
        speed_bench(str(tmp_path))
