"""Where two greedy texts part, and how far apart the logits of the two tokens are there."""

from collections.abc import Callable, Sequence
from math import floor, log2
from typing import Any

import torch
from torch import Tensor

from outrider import Target, Tokens

Texts = list[list[int]]


def generate(target: Target, prompts: Texts, length: int, **more: Any) -> Any:
    """Returns what transformers' `generate` makes of prompts, padded on the left."""
    width = max(map(len, prompts))
    ids = [[0] * (width - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return target.model.generate(
        torch.tensor(ids),
        attention_mask=torch.tensor(mask),
        do_sample=False,
        max_new_tokens=length,
        return_dict_in_generate=True,
        **more,
    )


def until_eos(target: Target, text: Sequence[int]) -> list[int]:
    """Returns a text up to its end."""
    ends = [position for position, token in enumerate(text) if token in target.eos]
    return list(text[: ends[0] + 1] if ends else text)


def read(target: Target, prompt: Sequence[int], text: Sequence[int]) -> Tensor:
    """Returns the logits at every position of a text, read in one pass of transformers' code."""
    ids = torch.tensor([[*prompt, *text]])
    with torch.no_grad():
        rows: Tensor = target.model(ids, logits_to_keep=len(text) + 1).logits[0, :-1]
    return rows


def last_place(value: float, dtype: torch.dtype) -> float:
    """Returns the distance between numbers of a precision, at the size of `value`."""
    return float(torch.finfo(dtype).eps) * 2.0 ** floor(log2(abs(value) or 1.0))


def parting(
    text: Sequence[int], other: Sequence[int], rows: Callable[[], tuple[Tensor, Tensor]]
) -> dict[str, Any] | None:
    """Returns where a text departs from another, and how far apart the two tokens' logits are.

    rows: returns the logits at every position of `other`, in its own precision and in float32.
    """
    if list(text) == list(other):
        return None
    position = Tokens([*text]).shared(Tokens([*other]))
    stored, exact = (logits[position] for logits in rows())
    tokens = [other[position], text[position]]
    size = max(abs(float(stored[token])) for token in tokens)
    gap, exact_gap = (float(row[tokens[0]]) - float(row[tokens[1]]) for row in (stored, exact))
    return {
        "position": position, "tokens": tokens, "gap": gap,
        "units": gap / last_place(size, stored.dtype), "float32_gap": exact_gap,
    }  # fmt: skip
