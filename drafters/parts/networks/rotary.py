"""Rotary positions (2104.09864), also those that are scaled for longer texts."""

from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

Scaling = tuple[tuple[str, Any], ...]
"""The entries of transformers' `rope_parameters`; empty if positions are not scaled."""


def rotation(
    positions: Int[Tensor, "batch tokens"],
    head_dim: int,
    theta: float,
    dtype: torch.dtype = torch.float32,
    scaling: Scaling = (),
) -> tuple[Tensor, Tensor]:
    """Returns the cosine and sine of each position's angles."""
    periods, factor = _periods(head_dim, theta, positions.device, scaling)
    angles = (positions[..., None].float() / periods)[:, None]
    return (angles.cos() * factor).to(dtype), (angles.sin() * factor).to(dtype)


@cache
def _periods(
    head_dim: int, theta: float, device: torch.device, scaling: Scaling
) -> tuple[Float[Tensor, "head_dim"], float]:
    """Returns what each entry of a head divides a position by, and the factor of both angles."""
    if not scaling:
        entries = torch.arange(0, head_dim, 2, device=device, dtype=torch.float32)
        return (theta ** (entries / head_dim)).repeat(2), 1.0
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = {**dict(scaling), "rope_theta": theta}
    config = LlamaConfig(
        hidden_size=head_dim, num_attention_heads=1, head_dim=head_dim, rope_parameters=parameters
    )
    frequencies, factor = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, device)
    return (1 / frequencies).repeat(2), float(factor)


def rotated(x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Returns the heads with each pair of entries rotated by its position's angle."""
    cosine, sine = rotary
    left, right = x.chunk(2, dim=-1)
    return x * cosine + torch.cat([-right, left], dim=-1) * sine
