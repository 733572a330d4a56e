"""The arguments of a comparison that takes a second."""

import json
from pathlib import Path
from typing import Any

import pytest

LINES = [
    {"question_id": 1, "category": "chat", "turns": ["the cat sat on the mat", "and the dog ?"]},
    {"question_id": 2, "category": "chat", "turns": ["one two three one two"]},
    {"question_id": 3, "category": "code", "turns": ["red blue red blue red"]},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


@pytest.fixture
def quick(folder: Path, data: Path) -> list[str]:
    return [
        "target=transformers",
        f"target.model={folder}",
        "data=jsonl",
        f"data.path={data}",
        "drafters=[none,prompt_lookup,bigram]",
        "max_new_tokens=8",
        "gamma=2",
        "cache=false",
    ]


@pytest.fixture
def compared(run: Any, quick: list[str], tmp_path: Path) -> Any:
    """Compares into `out` below the fresh folder; returns what was printed, and the report."""

    def go(*arguments: str, out: str = "out", status: int = 0) -> tuple[str, dict[str, Any]]:
        code, printed, complaint = run(
            "compare", *quick, f"hydra.run.dir={tmp_path / out}", *arguments
        )
        assert code == status, complaint
        place = tmp_path / out / "comparison.json"
        report = json.loads(place.read_text()) if place.is_file() else {}
        return printed + complaint, report

    return go
