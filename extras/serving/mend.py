"""Mends vLLM 0.32 on CPUs, where drafts make sampled requests and their neighbours wrong."""

import logging

from jaxtyping import Int
from torch import Tensor

from outrider.extras.serving.vllm import SUPPORTED

log: logging.Logger = logging.getLogger("vllm.outrider")


def mend() -> None:
    """Gives vLLM another `expand_batch_to_tokens`, if it is a version that needs one.

    vLLM calls this in each of its processes, as one of its `vllm.general_plugins`. Its own function
    fills a copy on CPUs, so that temperature, top-k and top-p of drafted positions are whatever was
    in memory (https://github.com/vllm-project/vllm/issues/55005).
    """
    import vllm  # type: ignore[import-not-found]
    from vllm.platforms import current_platform  # type: ignore[import-not-found]

    if not (current_platform.is_cpu() and vllm.__version__.startswith(SUPPORTED)):
        return
    from vllm.v1.sample import rejection_sampler  # type: ignore[import-not-found]

    rejection_sampler.expand_batch_to_tokens = expand_batch_to_tokens
    log.info("vLLM issue 55005 is mended: drafts leave sampled texts as they are")


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
