"""A share of the probabilities stands for the token in whose interval it lies, in any block."""

import math

import pytest
import torch
from torch import Tensor

from outrider.contract.chance import BLOCK, located, token_at
from tests.devices import FAR, accelerator

TOTAL = 4096
"""A power of two, so that no share of it is rounded."""


def widths() -> Tensor:
    """Returns whole numbers that sum to `TOTAL`, some blocks of them without any width."""
    counts = torch.randint(0, 4, (5 * BLOCK + 17,), generator=torch.Generator().manual_seed(0))
    counts[BLOCK : 2 * BLOCK] = counts[-20:] = 0
    counts[3] += TOTAL - counts.sum()
    assert counts.min() >= 0
    return counts


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("place", [0, 0.5])
def test_every_token_has_an_interval_as_wide_as_its_probability(
    dtype: torch.dtype, place: float
) -> None:
    counts = widths()
    probs = counts.to(dtype)
    expected = torch.repeat_interleave(torch.arange(len(counts)), probs.long()).tolist()
    total = len(expected)
    assert [token_at(probs, (unit + place) / total) for unit in range(total)] == expected


def test_rounding_never_leaves_the_tokens_that_are_possible() -> None:
    generator = torch.Generator().manual_seed(1)
    for size in (1, 2, 20, BLOCK, BLOCK + 1, 3 * BLOCK + 5):
        for _ in range(50):
            probs = torch.rand(size, dtype=torch.float64, generator=generator)
            probs[torch.rand(size, generator=generator) < 0.7] = 0
            probs[0] += 1e-30
            for share in (0.0, 0.1, 0.5, 0.9, math.nextafter(1, 0)):
                assert probs[token_at(probs, share)] > 0


def test_small_probabilities_beside_large_ones_keep_their_interval() -> None:
    small = 2.0**-40
    probs = torch.tensor([0.5, small, 0.5 - small], dtype=torch.float64)
    assert [token_at(probs, 0.5 + place * small) for place in (-0.5, 0.5, 1.5)] == [0, 1, 2]


def test_a_device_finds_the_token_of_the_host() -> None:
    generator = torch.Generator().manual_seed(2)
    for size in (1, 7, BLOCK, BLOCK + 1, 40 * BLOCK + 5):
        for scale in (1.0, 1e-30, 3e7):
            probs = scale * torch.rand(size, generator=generator, dtype=torch.float64) ** 9
            probs[torch.rand(size, generator=generator) < 0.5] = 0
            probs[size // 2] += scale
            shares = (0.0, math.nextafter(1, 0), *torch.rand(50, generator=generator).tolist())
            for share in shares:
                token = token_at(probs, share)
                assert located(probs[None], [share]).tolist() == [token]
                assert probs[located(probs.float()[None], [share])] > 0


@pytest.mark.parametrize("wrong", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_a_device_finds_no_token_without_mass(wrong: list[float]) -> None:
    assert located(torch.tensor(wrong)[None], [0.5]).tolist() == [-1]
    with accelerator(), pytest.raises(ValueError, match="probabilities sum to"):
        token_at(torch.tensor(wrong, device=FAR), 0.5)
