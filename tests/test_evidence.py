"""What the measuring scripts claim, in short: texts agree, a lie is found, memory stays bounded."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EVIDENCE = Path(__file__).parent / "evidence"


@pytest.mark.usefixtures("shared_smollm2")
@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("greedy.py", ["--count", "1", "--tokens", "20"], "0 texts differ"),
        ("distribution.py", ["--samples", "400", "--drafters", "prompt_lookup", "bigram"], "liar"),
    ],
)
def test_what_is_claimed_of_texts_holds(
    script: Any, name: str, arguments: list[str], line: str
) -> None:
    status, out, err = script(EVIDENCE / name, *arguments)
    assert status == 0, out + err
    assert line in out


def test_memory_stays_bounded() -> None:
    """In a process of its own, of whose children the largest counts."""
    subprocess.run(
        [sys.executable, EVIDENCE / "memory.py", "--only", "generate", "--tokens", "16"], check=True
    )
