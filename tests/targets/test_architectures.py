"""Architectures that read a tree, a batch or the cache in ways of their own."""

from dataclasses import replace

import pytest
import torch
from tiny.models import ENTRIES, build
from tiny.outcomes import outcomes
from tiny.subject import Subject, prompts, truth

from outrider import ConfigError, TargetError
from outrider.extras.serving.transformers import Speculation
from outrider.targets.transformers import TransformersTarget

CHUNKS = replace(ENTRIES["llama4_text"], settings={"attn_temperature_tuning": False})
ROWS = {
    "falcon (ALiBi)": {"batch": "right", "tree": "refused"},  # places of its own
    "mpt": {"batch": "right", "tree": "refused"},
    "jamba": {"chain": "right", "tree": "refused"},  # states: attention, and Mamba's first scan
    "olmo_hybrid": {"chain": "right", "tree": "refused"},  # the gated delta rule, as in Qwen3-Next
    "lfm2_moe": {"chain": "right", "tree": "refused"},  # convolutions alone
    "mamba2": {"chain": "right", "tree": "refused"},  # no attention
    "mamba": {"write": "right", "custom_generate": "right"},
    "gpt_oss": {"write": "right", "tree": "right"},  # windows
    "qwen2 (windows)": {"write": "right", "tree": "right"},
    "doge": {"write": "right", "tree": "right"},
    "llama4_text (chunks alone)": {"write": "right", "tree": "right"},
    "gemma3": {"custom_generate": "right"},  # reads images too
}
"""Rows of the sweep, and what comes of every check of a mode."""


@pytest.mark.parametrize("name", ROWS)
def test_short_texts_are_those_of_generate_or_refused(name: str) -> None:
    entry, short = {**ENTRIES, "llama4_text (chunks alone)": CHUNKS}[name], prompts()[1:]
    model = build(entry)
    subject = Subject(entry, model, short, [truth(model, prompt) for prompt in short])
    found = {mode: outcomes(subject, mode) for mode in ROWS[name]}
    words = {mode: {check["outcome"] for check in checks} for mode, checks in found.items()}
    assert words == {mode: {word} for mode, word in ROWS[name].items()}, found


@pytest.mark.parametrize("name", ["smollm3", "mellum"])
def test_a_window_that_no_layer_has_is_no_reason_to_refuse_trees(name: str) -> None:
    assert TransformersTarget(build(ENTRIES[name])).trees


@pytest.mark.parametrize(
    "name", ["xlm", "cpmant", "fsmt", "prophetnet (seq2seq)", "openai-gpt", "bert (both ways)"]
)
def test_a_model_that_can_not_read_in_parts_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(TargetError, match=r"^model [^\n]*: expected [^\n]*$"):
        TransformersTarget(build(ENTRIES[name]))


def test_longrope_ends_at_its_original_window_inside_generate() -> None:
    model = build(ENTRIES["llama (LongRoPE)"])
    ids = torch.tensor(prompts()[:1])
    options = {"do_sample": False, "attention_mask": torch.ones_like(ids)}
    draft = {"custom_generate": Speculation("prompt_lookup", gamma=4)}
    right = model.generate(ids, **options, max_new_tokens=8)
    assert torch.equal(model.generate(ids, **options, **draft, max_new_tokens=8), right)
    line = "max_length=49: expected at most 48, where LongRoPE's factors change"
    with pytest.raises(ConfigError, match=line):
        model.generate(ids, **options, **draft, max_new_tokens=9)
