"""Quick comparisons for the tests of several commands."""

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def quick(folder: Path, data: Path) -> list[str]:
    return [
        "target=transformers", f"target.model={folder}", "data=jsonl", f"data.path={data}",
        "drafters=[none,prompt_lookup,bigram]", "max_new_tokens=8", "gamma=2", "cache=false",
    ]  # fmt: skip


@pytest.fixture
def compared(run: Any, quick: list[str], tmp_path: Path) -> Any:
    """Runs a comparison in the folder `out`; returns the printed text and the report."""

    def go(*arguments: str, out: str = "out", status: int = 0) -> tuple[str, dict[str, Any]]:
        code, printed, complaint = run(
            "compare", *quick, f"hydra.run.dir={tmp_path / out}", *arguments
        )
        assert code == status, complaint
        path = tmp_path / out / "comparison.json"
        report = json.loads(path.read_text()) if path.is_file() else {}
        return printed + complaint, report

    return go
