"""A comparison shows each text while it is written, where there is a terminal to show it in."""

import io
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from outrider.cli import screen
from outrider.cli.screen import LiveText, Screen
from outrider.contract.round import Round
from outrider.lab.measuring.variants import PLAIN_NAME, Question

QUESTION = Question("7", 1, "chat", [0])


def a_round(pieces: tuple[str, ...], seconds: float, stop: str | None = None) -> Round:
    origins = (*("accepted",) * (len(pieces) - 1), "bonus")
    count = len(pieces)
    spent = {"draft": 0.0, "score": seconds, "verify": 0.0}
    return Round(tuple(range(count)), origins, pieces, (), (), (), 0, 0, 0, spent, stop)


def shown(text: LiveText, width: int = 60) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system="standard")
    with console.capture() as capture:
        console.print(text)
    return capture.get()


def test_tokens_have_the_colour_of_who_wrote_them() -> None:
    text = LiveText()
    text.add("bigram", QUESTION, a_round(("Hello", " world", "!"), 0.5))
    picture = shown(text)
    assert "\x1b[4;32mHello\x1b[0m\x1b[4;32m world\x1b[0m\x1b[34m!\x1b[0m" in picture
    assert "prompt 7, bigram: 6.0 tokens/s" in picture
    assert ", plain" not in picture


def test_tokens_a_second_stand_beside_those_of_plain_decoding() -> None:
    text = LiveText()
    text.add(PLAIN_NAME, QUESTION, a_round(("One",), 0.5))
    assert "plain decoding: 2.0 tokens/s" in shown(text)
    text.add(PLAIN_NAME, QUESTION, a_round((" two",), 0.5, "eos"))
    text.add("eagle", QUESTION, a_round(("One", " two"), 0.25, "eos"))
    picture = shown(text)
    assert "eagle: 8.0 tokens/s, plain 2.0" in picture
    assert picture.count("One") == 1  # each text begins anew


def test_of_a_long_text_the_end_is_shown_in_a_frame_of_one_height() -> None:
    text = LiveText()
    heights = set()
    for number in range(40):
        text.add("bigram", QUESTION, a_round((f"line {number}\n",), 0.1))
        heights.add(shown(text).count("\n"))
    assert len(heights) == 1
    assert "line 39" in shown(text)
    assert "line 3\n" not in shown(text)


def test_without_a_terminal_no_texts_are_drawn() -> None:
    assert not Screen(live=True).live_texts


@pytest.mark.usefixtures("drawn_once")
def test_a_comparison_in_a_terminal_draws_its_texts(
    compared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one run with the fastest first in the table, and the address of its report below."""
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr(screen, "remarks", lambda: terminal)
    clock = itertools.count(1)  # so that every round is drawn
    monkeypatch.setattr(screen, "perf_counter", lambda: next(clock))
    printed, report = compared("live=true", "turns=1")
    drawn = terminal.file.getvalue()  # type: ignore[attr-defined]
    for name in ("plain decoding", "prompt_lookup", "bigram"):
        assert f"prompt 1, {name}" in drawn
    is_doubtful = any(row["doubts"] for row in report["rows"])
    rate = "block_efficiency" if is_doubtful else "speedup"
    rows = sorted(report["rows"], key=lambda row: -row[rate])
    order = [row["drafter"].replace("none", "plain decoding") for row in rows]
    places = [printed.index(f"\n  {name} ") for name in order]
    assert places == sorted(places), printed
    assert (tmp_path / "out" / "report.html").as_uri() in printed
    settings = json.loads((tmp_path / "out" / "run.json").read_text())["settings"]
    assert "live" not in settings


@pytest.mark.parametrize(
    ("columns", "shown"), [("all", "median"), ("[acceptance_rate,speedup]", "of drafted")]
)
def test_columns_are_all_or_those_that_are_named(compared: Any, columns: str, shown: str) -> None:
    printed, _ = compared("protocol=decode", f"columns={columns}", "reports=[]")
    head = " ".join(printed.partition("───")[0].split()).rpartition("CPU cores")[2]
    assert shown in head and "of drafted" in head
    assert ("per call" in head) == (columns == "all")
