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


def test_texts_of_low_precision_are_kept_and_put_on_a_page(
    script: Any, tmp_path: Path, folder: Path, data: Path
) -> None:
    page = tmp_path / "page.md"
    around = "# Before\n\n<!-- precision -->\n{}\n<!-- end of precision -->\n\nAfter.\n"
    page.write_text(around.format("old"))
    modes = ["plain, optimize=none", "plain", "prompt_lookup, batch of 4", "write, batch of 4"]
    arguments = [
        *["--prompts", str(data), "--target", str(folder), "--tokens", "6"],
        *["--results", "kept.jsonl", "--page", str(page), "--modes", *modes],
    ]
    for _ in range(2):  # the second time, all is there
        status, out, err = script(EVIDENCE / "precision.py", *arguments)
        assert status == 0, out + err
        assert len((tmp_path / "kept.jsonl").read_text().splitlines()) == 2 * 3
    assert page.read_text() == around.format(out.strip())
    assert "| plain, optimize=none | 0 of 3 |" in out
    assert "attention computed by itself, by" in " ".join(out.split())
    arguments[arguments.index("6")] = "5"
    status, _, err = script(EVIDENCE / "precision.py", *arguments)
    assert (status, err.strip().splitlines()[-1]) == (2, "kept.jsonl: tokens 6: expected 5")


def test_memory_stays_bounded() -> None:
    """In a process of its own, of whose children the largest counts."""
    subprocess.run(
        [sys.executable, EVIDENCE / "memory.py", "--only", "generate", "--tokens", "16"], check=True
    )


def test_the_same_drafter_is_compared_with_itself(script: Any, folder: Path, data: Path) -> None:
    """The script runs; what it measures is a matter of the clock."""
    status, out, err = script(
        *[EVIDENCE / "same_drafter.py", "--target", str(folder), "--prompts", str(data)],
        *["--tokens", "6", "--repeats", "2"],
    )
    assert status in (0, 1), err
    assert "third: " in out and "second / third: " in out
    assert "spread " in out and "(at most 3%)" in out
