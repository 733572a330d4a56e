"""Beams and scores are those of transformers' beam search, in fewer calls, for any drafter."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from outrider.drafters.random import Random
from outrider.drafters.small_lm import SmallLM
from outrider.extras.beams.speculation import beam_search
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget

SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"length_penalty": 0.0, "early_stopping": "never"},
    {"length_penalty": 2.0, "early_stopping": "never"},
    {"length_penalty": 0.6, "early_stopping": True},
    {"length_penalty": -1.0},
)
ENDS = (1, [1, 9], None)


def inputs(count: int) -> list[list[int]]:
    draw = random.Random(0)
    return [[draw.randrange(2, 31) for _ in range(draw.randrange(1, 12))] for _ in range(count)]


def transformers_own(
    model: Any, prompt: list[int], width: int, **settings: Any
) -> tuple[list[tuple[int, ...]], list[float]]:
    """Its beams, without what fills them up, and their scores."""
    result = model.generate(
        torch.tensor([prompt]),
        num_beams=width,
        num_return_sequences=width,
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        **settings,
    )
    lengths = (result.beam_indices >= 0).sum(-1).tolist()
    beams = [
        tuple(row[len(prompt) : len(prompt) + length])
        for row, length in zip(result.sequences.tolist(), lengths, strict=True)
    ]
    return beams, result.sequences_scores.tolist()


@pytest.mark.parametrize("number", range(20))
def test_the_beams_are_transformers_own(llama: Any, number: int) -> None:
    # Of settings, ends and widths, any two meet each other.
    prompt, settings = inputs(20)[number], SETTINGS[number % len(SETTINGS)]
    width, ends = (2, 4)[number % 2], ENDS[number % len(ENDS)]
    model = llama(seed=number % 3, eos_token_id=ends)
    target = TransformersTarget(model)
    settings = settings | {"max_new_tokens": 18}
    beams, scores = transformers_own(model, prompt, width, **settings)
    steps = set()
    for drafter, draft_width in (
        (SmallLM(model=model), width),
        (SmallLM(layers=2), width + 2),
        (Random(), 2 * width),
    ):
        result = beam_search(
            target,
            prompt,
            drafter,
            width=width,
            draft_width=draft_width,
            gamma=3,
            num_return_sequences=width,
            **settings,
        )
        assert list(result.tokens) == beams
        assert list(result.scores) == pytest.approx(scores, rel=1e-5, abs=1e-4)
        assert all(1 <= tokens <= 4 for tokens in result.rounds)
        steps.add(result.steps)
    assert len(steps) == 1


def test_a_drafter_like_the_target_saves_all_that_can_be_saved(llama: Any) -> None:
    model = llama(eos_token_id=None)
    for gamma, calls in ((1, 12), (3, 6), (5, 4), (23, 1)):
        result = beam_search(
            TransformersTarget(model),
            [5, 6],
            SmallLM(model=model),
            width=3,
            draft_width=3,
            gamma=gamma,
            max_new_tokens=24,
        )
        assert (result.steps, len(result.rounds), result.saved) == (24, calls, 24 - calls)


def test_a_drafter_without_a_clue_saves_nothing(llama: Any) -> None:
    target = TransformersTarget(llama(eos_token_id=None))
    result = beam_search(target, [5, 6], "none", width=3, max_new_tokens=15)
    assert (result.steps, result.saved) == (15, 0)
    blind = beam_search(target, [5, 6], Random(), width=3, max_new_tokens=15)
    assert (blind.tokens, blind.steps) == (result.tokens, 15)
    assert blind.saved <= 1


def test_one_call_of_the_target_a_round(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, passes = llama(), []
    forward = model.forward

    def counted(*given: Any, **options: Any) -> Any:
        passes.append(options["input_ids"].shape[1])
        return forward(*given, **options)

    counted.__signature__ = __import__("inspect").signature(forward)  # type: ignore[attr-defined]
    target = TransformersTarget(model)  # whose self-test is not counted
    monkeypatch.setattr(model, "forward", counted)
    result = beam_search(target, [5, 6, 7], SmallLM(model=llama()), width=2, draft_width=3, gamma=2)
    assert len(passes) == len(result.rounds)
    assert max(passes) <= 3 + 2 + 3 * 2  # the prompt, w and u gamma


def test_a_target_without_a_model_has_beams_too() -> None:
    target = TabularTarget(5, order=2, seed=1)
    result = beam_search(target, [0, 1], "none", width=3, max_new_tokens=9)
    again = beam_search(target, [0, 1], "bigram", width=3, max_new_tokens=9)
    assert again.tokens == result.tokens
    assert again.scores == pytest.approx(result.scores, abs=1e-6)
    assert result.texts == ("",)


def test_the_context_window_bounds_the_beams(llama: Any) -> None:
    target = TransformersTarget(llama(max_position_embeddings=16, eos_token_id=None))
    result = beam_search(target, [5] * 10, "bigram", width=2, max_new_tokens=50)
    assert len(result.tokens[0]) == 6


def test_the_command_prints_the_beams_and_the_saved_calls(
    run: Any, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    printed = run.done(
        "beams", "target=transformers", f"target.model={folder}", "prompt=the cat", "width=3",
        "draft_width=5", "gamma=2", "drafter.layers=2", "max_new_tokens=12",
        "num_return_sequences=2", "early_stopping=never", f"hydra.run.dir={out}",
    )  # fmt: skip
    report = json.loads((out / "beams.json").read_text())
    assert len(report["texts"]) == len(report["scores"]) == 2
    assert (
        report["saved"]
        == report["steps"] - report["calls"]
        == report["steps"] - len(report["rounds"])
    )
    assert report["texts"][0] in printed
    assert f"{report['calls']} target calls for {report['steps']} steps" in printed
