"""The text of a self-test: its tokens, the windows that it exceeds, and what counts as equal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.pretrained import Model
from outrider.targets.passes.masks import attention
from outrider.targets.passes.recurrent import NO_MASK, has_states
from outrider.targets.readings import spread_over

SHORT = 64
"""A window of up to this many tokens is tested unchanged; a longer one is shortened to `TINY`."""

TINY = 8

TOLERANCE = {torch.float16: 0.1, torch.bfloat16: 0.3}
"""How far logits may differ, relative to their deviation; other precisions have `EXACT`."""

EXACT = 1e-3

SAME_SIZE = 0.02
"""How far they may differ in half precision between two passes of one size."""


def differ(
    logits: Float[Tensor, "rows vocab"],
    expected: Float[Tensor, "rows vocab"],
    *,
    same_size: bool = False,
) -> bool:
    """Returns whether logits differ by more than rounding explains.

    same_size: whether they are of passes of one size, which rounds alike.

    In half precision, rounding may send a token to another expert, so the median row decides. A
    draft model may have no logits for some of the tokens: -inf in every row.
    """
    known = ~(logits.isneginf() & expected.isneginf()).all(0)
    logits, expected = logits[:, known], expected[:, known]
    gaps = (logits - expected).double().square().mean(-1).sqrt()
    relative = gaps / expected.double().std(-1).clamp(min=1e-9)
    tolerance = TOLERANCE.get(expected.dtype)
    if tolerance is not None and same_size:
        tolerance = SAME_SIZE
    worst = relative.max() if tolerance is None else relative.median()
    return not float(worst) <= (tolerance or EXACT)


def ordinary_tokens(model: Model, count: int) -> list[int]:
    """Returns ids that differ from their neighbours, none of them special if possible."""
    config = model.config.to_dict() | model.config.get_text_config().to_dict()
    named = [value for name, value in config.items() if name.endswith(("token_id", "token_index"))]
    special = {value for value in named if isinstance(value, int)}
    everything = range(int(model.config.get_text_config().vocab_size))
    ids = [token for token in everything if token not in special] or list(everything)
    return spread_over(ids, count)


def beyond_a_test(model: Model) -> str:
    """Returns why a short text can't test a model, worded to follow "since"; "" if it can.

    Recurrent states take no masks, and flash attention takes those of padding alone. GPT-Neo's
    local layers and Llama 4's temperatures (one more every 8,192 tokens) depend on positions in the
    cache.
    """
    if has_states(model):
        return NO_MASK
    if "flash" in attention(model):
        return f"{attention(model)} reads chains alone: expected flex_attention, sdpa or eager"
    config: Any = model.config.get_text_config()
    local = getattr(config, "window_size", None)
    if isinstance(local, int) and local > SHORT:
        return f"no mask reaches its window of {local} tokens"
    if getattr(config, "attn_temperature_tuning", None):
        return "its attention's temperature depends on positions in the cache"
    return ""


@contextmanager
def short_windows(model: Model) -> Iterator[int]:
    """Shortens long windows to `TINY` in the block, and yields the length of the longest window."""
    found = [getattr(module, "config", None) for module in model.modules()]
    configs = {id(it): it for it in (*found, model.config.get_text_config()) if it}
    before: list[tuple[Any, str, int]] = []
    longest = 0
    try:
        for config in configs.values():
            for name in ("sliding_window", "attention_chunk_size"):
                size = getattr(config, name, None)
                if isinstance(size, int) and size > SHORT:
                    before.append((config, name, size))
                    setattr(config, name, TINY)
                if isinstance(size, int):
                    longest = max(longest, size if size <= SHORT else TINY)
        local = getattr(model.config.get_text_config(), "window_size", None)
        yield max(longest, local if isinstance(local, int) and local <= SHORT else 0)
    finally:
        for config, name, size in before:
            setattr(config, name, size)
