"""Every kind of mask, position and cache once: the text is right, or refused in one line."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import transformers
from tiny.models import ENTRIES
from tiny.modes import MODES
from tiny.outcomes import outcomes, word
from tiny.page import NOT_BUILT, placed, read, sheet, written
from tiny.subject import subject

import outrider

DOCS = Path(__file__).parent.parent / "docs"
CHECKED = ("logits", "early exit", "write", "batch")
"""Chains and trees by their logits; texts written alone, with drafts and without, and together."""
ROWS = {
    "gpt2": "learned positions", "mistral": "one window, in a mask for all layers",
    "gemma3_text": "windows in some layers, a mask for each type",
    "llama4_text": "chunks, and layers without positions",
    "gemma4_text": "keys and values that layers share",
    "deepseek_v3": "latent keys and values, experts", "bloom": "ALiBi",
    "gpt_neo": "windows by places in the cache", "bart": "positions that the model counts itself",
    "phi3 (LongRoPE)": "factors that change at the original window",
    "t5": "an encoder, and a bias by distance",
    "switch_transformers": "an encoder with an output of its own",
}  # fmt: skip
"""Rows of the sweep, each for what is not in the others."""
SEEDS = {
    "gpt2": 3, "gemma3_text": 4, "gemma4_text": 4, "bloom": 3, "bart": 1, "phi3 (LongRoPE)": 2,
    "switch_transformers": 3,
}  # fmt: skip
"""Those with which texts vary, where the first does not do: the sweep tries them in turn."""
REFUSED = {"t5": {"early exit"}, "switch_transformers": {"early exit"}}


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
    built = subject(ENTRIES[name], [SEEDS.get(name, 0)])
    assert len(set(built.truths[0].text)) >= 4
    found = {mode: outcomes(built, mode) for mode in CHECKED}
    refused = REFUSED.get(name, set())
    expected = {mode: "refused" if mode in refused else "right" for mode in CHECKED}
    assert {mode: word(checks) for mode, checks in found.items()} == expected, found


def test_the_sheet_has_every_row_and_mode_and_nothing_wrong() -> None:
    text = (DOCS / "models.csv").read_text()
    rows = read(text)
    assert written(rows) == text
    assert set(ENTRIES) == {row["model"] for row in rows}
    words = {row[mode] for row in rows for mode in MODES}
    assert words <= {"right", "slow draft", "partly", "refused", ""}
    for row in rows:  # whatever is refused has its reason
        is_named = row["kind"] == NOT_BUILT or {"partly", "refused"} & {*row.values()}
        assert bool(is_named) == bool(row["reason"]), row["model"]


def test_the_page_counts_the_rows_of_the_sheet() -> None:
    page = (DOCS / "models.md").read_text()
    versions = f"Outrider {outrider.__version__}, transformers {transformers.__version__}"
    assert placed(page, read((DOCS / "models.csv").read_text()), versions) == page
    assert len(page.splitlines()) <= 60


def test_a_row_of_the_sheet_names_modes_and_reasons() -> None:
    line = "drafter eagle needs model: the target offers source"
    right = {"outcome": "right", "detail": ""}
    cells = {
        "plain": [right],
        "eagle": [{"outcome": "refused", "detail": line}],
        "tree": [right, {"outcome": "error", "detail": "E: 3 rows"}],
        "medusa": [right, {"outcome": "refused", "detail": line}],
    }
    facts = {
        "new": {"reason": "it reads audio"},
        "llama": {"group": "Decoders", "cache_differs": True},
        "unread": {},
    }
    built = {"new": {}, "llama": cells, "unread": {}}
    llama, new = sheet({name: {"facts": facts[name], "cells": built[name]} for name in facts})
    words = [llama[mode] for mode in ("plain", "eagle", "tree", "medusa", "write")]
    assert words == ["right", "refused", "error", "partly", ""]
    assert llama["generate"] == "differs from full passes"
    assert llama["reason"] == (
        "tree: E: n rows; medusa, eagle: drafter … needs model: the target offers source"
    )
    assert (new["kind"], new["reason"], new["plain"]) == ("not built", "it reads audio", "")
