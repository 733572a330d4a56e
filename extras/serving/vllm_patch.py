"""What vLLM loads in each process as one of its plugins: a patch of its sampling on CPUs."""

import logging
import os
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

PATCH = "OUTRIDER_VLLM_PATCH"
"""The environment variable that asks for the patch, as `serve-config` and `serve-check` do."""

log: logging.Logger = logging.getLogger("vllm.outrider")


def register() -> None:
    """Gives vLLM on CPUs another `expand_batch_to_tokens`, if its own is wrong and 1 asks for it.

    That of 0.32 fills a copy on CPUs, so that temperature, top-k and top-p of drafted positions are
    whatever was in memory (https://github.com/vllm-project/vllm/issues/55005): drafts make sampled
    requests and their neighbours wrong.
    """
    if os.environ.get(PATCH) != "1":
        return
    from vllm.platforms import current_platform  # type: ignore[import-not-found]

    if not current_platform.is_cpu():
        return
    from vllm.v1.sample import rejection_sampler  # type: ignore[import-not-found]

    if _is_right(rejection_sampler.expand_batch_to_tokens):
        return
    rejection_sampler.expand_batch_to_tokens = expand_batch_to_tokens
    log.info("vLLM issue 55005 is patched: drafts leave sampled texts as they are")


def _is_right(function: Any) -> bool:
    """Returns whether an engine's function gives each token the setting of its request."""
    arguments = torch.tensor([0.5, 0.0]), torch.tensor([2, 3], dtype=torch.int32), 3
    try:
        found = function(*arguments, replace_from=0, replace_to=1)
    except Exception:  # noqa: BLE001  whatever an engine's own function raises
        return False
    return isinstance(found, Tensor) and found.tolist() == [0.5, 0.5, 1.0]


def expand_batch_to_tokens(
    x: Tensor,
    cu_num_tokens: Int[Tensor, "batch"],
    num_tokens: int,
    replace_from: int = 0,
    replace_to: int = 0,
) -> Tensor:
    """Returns a setting of each request [batch] at each of its tokens [num_tokens], as vLLM has it.

    cu_num_tokens: the tokens of the requests up to each one.
    replace_from, replace_to: a value to be replaced, and what by.
    """
    counts = cu_num_tokens.diff(prepend=cu_num_tokens.new_zeros(1))
    expanded = x.repeat_interleave(counts, output_size=num_tokens)
    return expanded.masked_fill(expanded == replace_from, replace_to)
