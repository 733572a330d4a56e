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
    ("check", "drafter=none"),
    ("doctor",),
]


@pytest.mark.parametrize("words", PRINTED, ids=" ".join)
def test_a_line_is_longer_than_the_terminal_only_where_one_word_is(
    run: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    for line in run.done(*words).splitlines():
        words_of = re.sub(r"'[^']*'|\"[^\"]*\"", "quoted", line.removesuffix(" \\")).split()
        assert len(line) <= 60 or len(words_of) == 1, line
