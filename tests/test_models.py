"""Every kind of mask, position and cache once: the text is right, or refused in one line."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import transformers
from tiny.models import entries
from tiny.outcomes import outcomes
from tiny.page import SIGNS, sign
from tiny.subject import subject

PAGE = Path(__file__).parent.parent / "docs" / "models.md"
ENTRIES = {entry.name: entry for entry in entries()}
CHECKED = ("logits", "chain", "early exit", "write", "batch")
ROWS = {
    "llama": "full attention, rotary positions",
    "gpt2": "learned positions",
    "mistral": "one window, in a mask for all layers",
    "gemma3_text": "windows in some layers, a mask for each type",
    "llama4_text": "chunks, and layers without positions",
    "gemma4_text": "keys and values that layers share",
    "deepseek_v3": "latent keys and values, experts",
    "bloom": "ALiBi",
    "gpt_neo": "windows by places in the cache",
    "bart": "positions that the model counts itself",
    "roberta": "positions behind the padding id",
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
    found = {mode: [x.record() for x in outcomes(built, [mode])] for mode in CHECKED}
    refused = REFUSED.get(name, set())
    expected = {mode: SIGNS["refused" if mode in refused else "right"] for mode in CHECKED}
    assert {mode: sign(checks) for mode, checks in found.items()} == expected, found
