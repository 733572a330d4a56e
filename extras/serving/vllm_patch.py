"""Patches of vLLM: its sampling on CPUs, where that is wrong, and its second model runner."""

import logging
import os
import sys
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from outrider.extras.serving.vllm_second_runner import OutriderSpeculator

SECOND_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
"""The environment variable that asks vLLM for its second runner."""

log: logging.Logger = logging.getLogger("vllm.outrider")


def patch_sampling() -> None:
    """Gives vLLM on CPUs another `expand_batch_to_tokens`, if its own is wrong.

    That of 0.32 fills a copy on CPUs, so that temperature, top-k and top-p of drafted positions are
    whatever was in memory (https://github.com/vllm-project/vllm/issues/55005): drafts make sampled
    requests and their neighbours wrong.
    """
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


def patch_second_runner() -> None:
    """Makes vLLM's second runner take `"method": "custom_class"`, which it refuses by itself.

    Other methods go to vLLM's function, and without `VLLM_USE_V2_MODEL_RUNNER=1` nothing is
    changed.
    """
    if os.environ.get(SECOND_RUNNER) != "1":
        return
    from vllm.v1.worker.gpu import spec_decode  # type: ignore[import-not-found]

    original = spec_decode.init_speculator

    def init_speculator(vllm_config: Any, device: torch.device, states: Any) -> Any:
        if vllm_config.speculative_config.method != "custom_class":
            return original(vllm_config, device, states)
        return OutriderSpeculator(vllm_config, device, states)

    spec_decode.init_speculator = init_speculator
    # The runner has a name of its own for it, if it was imported before.
    runner = sys.modules.get("vllm.v1.worker.gpu.model_runner")
    if runner is not None:
        runner.init_speculator = init_speculator  # type: ignore[attr-defined]
