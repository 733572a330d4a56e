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
ROWS = ENTRIES | {"llama4_text (chunks alone)": CHUNKS}


def with_truths(name: str) -> Subject:
    """Returns a model with two short prompts and what it writes about them."""
    model, short = build(ROWS[name]), prompts()[1:]
    return Subject(ROWS[name], model, short, [truth(model, prompt) for prompt in short])


def words(subject: Subject, mode: str) -> list[str]:
    """Returns what comes of each check of a mode."""
    return [outcome["outcome"] for outcome in outcomes(subject, mode)]


RIGHT = ["right", "right"]


@pytest.mark.parametrize("name", ["falcon (ALiBi)", "mpt"])
def test_places_of_its_own_leave_batches_right_and_refuse_trees(name: str) -> None:
    subject = with_truths(name)
    assert words(subject, "batch") == RIGHT
    assert set(words(subject, "tree")) == {"refused"}


@pytest.mark.parametrize(
    "name",
    [
        "jamba",  # beside attention, and with the first Mamba's scan
        "olmo_hybrid",  # the gated delta rule, as in Qwen3-Next
        "lfm2_moe",  # convolutions alone
        "mamba2",  # no attention
    ],
)
def test_recurrent_states_are_rolled_back_for_chains(name: str) -> None:
    subject = with_truths(name)
    assert words(subject, "chain") == [*RIGHT, "right"]
    assert set(words(subject, "tree")) == {"refused"}


def test_recurrent_states_write_one_by_one_and_inside_generate() -> None:
    subject = with_truths("mamba")
    assert words(subject, "write") == RIGHT
    assert words(subject, "custom_generate") == RIGHT


@pytest.mark.parametrize(
    "name", ["gpt_oss", "qwen2 (windows)", "doge", "mistral", "llama4_text (chunks alone)"]
)
def test_windows_hold_in_texts_and_in_trees(name: str) -> None:
    subject = with_truths(name)
    assert words(subject, "write") == RIGHT
    assert set(words(subject, "tree")) == {"right"}


@pytest.mark.parametrize("name", ["smollm3", "mellum"])
def test_a_window_that_no_layer_has_is_no_reason_to_refuse_trees(name: str) -> None:
    assert TransformersTarget(build(ENTRIES[name])).trees


@pytest.mark.parametrize(
    "name", ["xlm", "cpmant", "fsmt", "prophetnet (seq2seq)", "openai-gpt", "bert (both ways)"]
)
def test_a_model_that_can_not_read_in_parts_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(TargetError, match=r"^model [^\n]*: expected [^\n]*$"):
        TransformersTarget(build(ENTRIES[name]))


def test_a_model_that_also_reads_images_writes_inside_generate() -> None:
    assert words(with_truths("gemma3"), "custom_generate") == RIGHT


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
