"""The text of a self-test: its tokens, the windows it reaches past, and what counts as equal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.runtime.recurrent import NO_MASK, has_states

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SHORT = 64
"""A window of up to this many tokens is tested as it is; a longer one is made `TINY`."""

TINY = 8

TOLERANCE = {torch.float16: 0.1, torch.bfloat16: 0.3}
"""How far logits may be off, relative to their spread; other precisions have `EXACT`."""

EXACT = 1e-3


def differ(logits: Float[Tensor, "rows vocab"], wanted: Float[Tensor, "rows vocab"]) -> bool:
    """Returns whether logits are further off than rounding explains.

    In half precision, rounding may send a token to another expert, so that half of the rows count.
    """
    gaps = (logits - wanted).double().square().mean(-1).sqrt()
    relative = gaps / wanted.double().std(-1).clamp(min=1e-9)
    tolerance = TOLERANCE.get(wanted.dtype)
    worst = relative.max() if tolerance is None else relative.median()
    return not float(worst) <= (tolerance or EXACT)


def ordinary_tokens(model: "PreTrainedModel", count: int) -> list[int]:
    """Returns ids that differ from their neighbours, none of them special if possible."""
    config = model.config.to_dict() | model.config.get_text_config().to_dict()
    named = [value for name, value in config.items() if name.endswith(("token_id", "token_index"))]
    special = {value for value in named if isinstance(value, int)}
    everything = range(int(model.config.get_text_config().vocab_size))
    ids = [token for token in everything if token not in special] or list(everything)
    step = int(0.382 * len(ids)) or 1
    return [ids[(1 + step * number) % len(ids)] for number in range(count)]


def beyond_a_test(model: "PreTrainedModel") -> str:
    """Returns what no short text can show, in words that follow "since"; "" if there is nothing.

    Recurrent states take no masks. GPT-Neo's local layers and Llama 4's temperatures (one more
    every 8,192 tokens) go by places in the cache.
    """
    if has_states(model):
        return NO_MASK
    config: Any = model.config.get_text_config()
    local = getattr(config, "window_size", None)
    if isinstance(local, int) and local > SHORT:
        return f"no mask reaches its window of {local} tokens"
    if getattr(config, "attn_temperature_tuning", None):
        return "its attention's temperature goes by places in the cache"
    return ""


@contextmanager
def short_windows(model: "PreTrainedModel") -> Iterator[int]:
    """Makes long windows `TINY` while it runs, and gives the length of the longest then."""
    modules: Any = model.modules()
    configs = {id(config): config for m in modules if (config := getattr(m, "config", None))}
    configs[0] = model.config.get_text_config()
    before: list[tuple[Any, str, int]] = []
    longest = 0
    try:
        for config in list({id(config): config for config in configs.values()}.values()):
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
