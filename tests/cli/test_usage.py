"""What commands print fits the terminal, however narrow it is."""

import re
from typing import Any

import pytest

from outrider.plugins.registry import installed

HELPS = [(), *((name,) for name in installed().commands)]
PRINTED = [
    *((*words, "--help") for words in HELPS),
    ("plugins",),
    ("theory", "c_hat=0.1"),
    ("check", "policy=fixed"),
    ("doctor",),
]


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("words", PRINTED, ids=" ".join)
def test_a_line_is_longer_than_the_terminal_only_where_one_word_is(
    run: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for line in run.done(*words).splitlines():
        words_of = re.sub(r"'[^']*'|\"[^\"]*\"", "quoted", line.removesuffix(" \\")).split()
        assert len(line) <= width or len(words_of) == 1, line
