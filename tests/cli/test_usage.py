"""What commands print fits the terminal, however narrow it is."""

import re
from typing import Any

import pytest

from outrider.cli.usage import FIRST_STEPS
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


def test_each_first_step_has_a_line_of_its_own_in_80_columns(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    steps = FIRST_STEPS.partition("{commands}")[0]
    assert steps.rstrip() in run.done("--help")
