"""Every kind of mask, position and cache once: the text is right, or refused in one line."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import transformers
from tiny.models import entries
from tiny.modes import MODES
from tiny.outcomes import outcomes
from tiny.page import BEGIN, END, HEADS, SIGNS, placed, sign
from tiny.subject import subject

PAGE = Path(__file__).parent.parent / "docs" / "models.md"
ENTRIES = {entry.name: entry for entry in entries()}
CHECKED = ("logits", "chain", "early exit", "write", "batch")
ROWS = {
    "gpt2": "learned positions",
    "mistral": "one window, in a mask for all layers",
    "gemma3_text": "windows in some layers, a mask for each type",
    "llama4_text": "chunks, and layers without positions",
    "gemma4_text": "keys and values that layers share",
    "deepseek_v3": "latent keys and values, experts",
    "bloom": "ALiBi",
    "gpt_neo": "windows by places in the cache",
    "bart": "positions that the model counts itself",
    "phi3 (LongRoPE)": "factors that change at the original window",
    "openai-gpt": "no cache",
    "t5": "an encoder, and a bias by distance",
    "switch_transformers": "an encoder with an output of its own",
}
"""Rows of the sweep, each for what is not in the others."""
REFUSED = {"openai-gpt": set(CHECKED), "t5": {"early exit"}, "switch_transformers": {"early exit"}}


@pytest.fixture
def quiet() -> Iterator[None]:
    """The sweep's timer and signal are as they were."""
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    yield
    transformers.logging.set_verbosity(verbosity)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", ROWS)
def test_texts_are_those_of_generate_or_refused(name: str) -> None:
    built = subject(ENTRIES[name])
    records = {mode: [x.record() for x in outcomes(built, [mode])] for mode in CHECKED}
    refused = REFUSED.get(name, set())
    expected = {mode: SIGNS["refused" if mode in refused else "right"] for mode in CHECKED}
    assert {mode: sign(checks) for mode, checks in records.items()} == expected, records


def test_the_page_has_every_row_and_mode_and_nothing_wrong() -> None:
    page = PAGE.read_text()
    swept = page[page.index(BEGIN) : page.index(END)]
    rows = set(re.findall(r"^\| ([^|]+?) \|", swept, re.MULTILINE))
    assert set(ENTRIES) <= rows
    head = next(line for line in swept.splitlines() if line.startswith("| model | logits"))
    assert [cell.strip() for cell in head.split("|")[2:-1]] == [HEADS.get(x, x) for x in MODES]
    assert f"transformers {transformers.__version__}" in swept
    for mark in (SIGNS["WRONG"], SIGNS["RAW"]):
        assert re.search(rf"^\| {mark} \| .* \| 0 \|$", swept, re.MULTILINE)


def test_what_is_written_by_hand_stays() -> None:
    page = f"# Models\n\n{BEGIN}\nold\n{END}\n\n## By hand\n"
    assert placed(page, "new") == page.replace("old", "new")
    assert placed(placed(page, "new"), "old") == page
    with pytest.raises(ValueError, match="expected one of each"):
        placed("# Models\n", "new")


def test_signs_tell_what_is_wrong() -> None:
    def cell(*kinds: str) -> str:
        return sign([{"outcome": kind} for kind in kinds])

    assert [cell("right"), cell("refused", "right"), cell()] == ["✓", "◐", ""]
    assert cell("refused", "right", "WRONG") == "✗"
    assert cell("right", "RAW") == "!"
