"""Sampling agrees with transformers' own processors, setting by setting."""

import itertools
from typing import Any

import pytest
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from outrider import Sampling
from outrider.contract.sampling import likeliest

SETTINGS = list(
    itertools.product((0.3, 1.0, 1.7), (0, 1, 5, 1000), (0.05, 0.5, 0.9, 1.0), (0.0, 0.1, 1.0))
)


@pytest.mark.parametrize(("temperature", "top_k", "top_p", "min_p"), SETTINGS)
def test_the_distribution_is_that_of_transformers(
    temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    warpers: list[Any] = [TemperatureLogitsWarper(temperature)]
    warpers += [TopKLogitsWarper(top_k)] if top_k else []
    warpers += [TopPLogitsWarper(top_p)] if top_p < 1 else []
    warpers += [MinPLogitsWarper(min_p)] if min_p else []
    generator = torch.Generator().manual_seed(top_k)
    logits = torch.randn(20, 60, generator=generator)
    logits[10:] = logits[10:].round()  # many ties
    expected = LogitsProcessorList(warpers)(torch.zeros(20, 1, dtype=torch.long), logits.clone())
    probs = Sampling(temperature, top_k, top_p, min_p).probs(logits)
    torch.testing.assert_close(probs, expected.softmax(-1))
    torch.testing.assert_close(probs.sum(-1), torch.ones(20))


@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("scale", [0.1, 3.0, 9.0])
def test_top_p_keeps_the_same_tokens_of_a_large_vocabulary(top_p: float, scale: float) -> None:
    logits = scale * torch.randn(8, 3000, generator=torch.Generator().manual_seed(0))
    logits[2:4] = logits[2:4].round()  # many ties
    logits[4] = torch.where(torch.arange(3000) < 2, 0.0, float("-inf"))  # two equal halves
    logits[5, 9:] = float("-inf")
    warped = TopPLogitsWarper(top_p)(torch.zeros(8, 1, dtype=torch.long), logits.clone())
    probs = Sampling(temperature=1.0, top_p=top_p).probs(logits)
    assert torch.equal(probs > 0, warped.softmax(-1) > 0)
    torch.testing.assert_close(probs, warped.softmax(-1))


def test_temperature_zero_is_a_point_mass_on_the_first_of_the_highest() -> None:
    probs = Sampling().probs(torch.tensor([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]]))
    assert probs.tolist() == [[0, 1, 0], [1, 0, 0]]
    assert Sampling().greedy
    assert not Sampling(temperature=0.1).greedy


def test_half_precision_becomes_float32_and_double_stays() -> None:
    sampling = Sampling(temperature=1.0)
    assert sampling.probs(torch.randn(5).bfloat16()).dtype == torch.float32
    assert sampling.probs(torch.randn(5).double()).dtype == torch.float64


def test_logits_are_left_alone() -> None:
    logits = torch.randn(3, 8)
    before = logits.clone()
    Sampling(0.5, 3, 0.9, 0.1).probs(logits)
    assert torch.equal(logits, before)


def test_the_lowest_temperature_above_zero_is_a_point_mass_too() -> None:
    for logits in (torch.tensor([9e17, 1.0, -3e38]), torch.tensor([1.0, 2.0, float("-inf")])):
        probs = Sampling(1e-20).probs(logits)
        assert torch.equal(probs, Sampling().probs(logits))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_first_of_the_likeliest_tokens_is_found_in_any_precision(dtype: torch.dtype) -> None:
    logits = torch.tensor([float("-inf"), 2.0, -1.0, 2.0], dtype=dtype)
    assert int(likeliest(logits)) == 1
    assert likeliest(logits.requires_grad_()) == 1
    assert likeliest(torch.tensor([0.0, 1.0], dtype=dtype).expand(3, 2)[2]) == 1


def test_a_distribution_is_recorded_in_double_precision() -> None:
    probs = Sampling(2.0).exact(torch.tensor([0.3, 0.1, -0.5]))
    assert probs.dtype == torch.float64 and float(probs.sum()) == pytest.approx(1, abs=1e-15)
    expected = (torch.tensor([0.3, 0.1, -0.5]) / 2).softmax(-1).double()
    torch.testing.assert_close(probs, expected)
