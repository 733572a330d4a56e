"""The scripts that measure run, in short, and what they measure holds."""

import subprocess
import sys
from pathlib import Path

import pytest

EVIDENCE = Path(__file__).parent / "evidence"


@pytest.mark.parametrize(
    ("script", "arguments", "line"),
    [
        ("greedy.py", ["--count", "2", "--tokens", "12"], "0 texts differ"),
        ("distribution.py", ["--samples", "400", "--drafters", "prompt_lookup", "bigram"], "liar"),
        ("overhead.py", ["--rounds", "60"], "ms a round"),
        ("memory.py", [], "peak"),
        ("rules.py", ["--rounds", "5", "--slack", "2"], "ms a round"),
    ],
)
def test_what_is_claimed_holds(script: str, arguments: list[str], line: str) -> None:
    done = subprocess.run(
        [sys.executable, EVIDENCE / script, *arguments], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert line in done.stdout
