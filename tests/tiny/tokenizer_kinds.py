"""Tokenizers of the kinds that models have, each tiny, whose tokens make texts of any bytes."""

import random
from functools import cache
from typing import Any

from outrider.extras.fuzzing import tokenizers
from outrider.extras.fuzzing.tokenizers import BYTES

PIECES = ("the", "end", "a", "don", "na", "ïve", *(".,?!'"), "s", "n", "t", "re")
SPACED = (" the", " end", " a")
KINDS = (*tokenizers.KINDS, "bytes")
"""The kinds of the fuzzer, and ByT5's: pure Python, and no text of wrong bytes."""


@cache
def tokenizer_of(kind: str) -> Any:
    """Returns the tokenizer of a kind."""
    if kind == "bytes":
        from transformers import ByT5Tokenizer

        return ByT5Tokenizer()
    pieces = SPACED if kind == "byte_level" else (*PIECES, "\n") if kind == "python" else PIECES
    return tokenizers.tokenizer_of(kind, pieces, cleans_up=kind == "cleaned_up")


def random_ids(kind: str, draw: random.Random) -> list[int]:
    """Returns a text of words, marks, bytes and special tokens, in stretches of one kind."""
    tokenizer = tokenizer_of(kind)
    stretches = [range(len(tokenizer))]
    if kind in ("llama", "gemma"):
        stretches.append(tokenizer.convert_tokens_to_ids(list(BYTES[0xC0:] + BYTES[0x28:0x90])))
    ids: list[int] = []
    for _ in range(draw.randint(0, 4)):
        ids += draw.choices(draw.choice(stretches), k=draw.randint(1, 5))
    return ids
