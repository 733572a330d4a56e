"""Whether a draft model's token ids mean the same as the target's."""

from collections.abc import Sequence
from typing import Any

from outrider.base.errors import ConfigError
from outrider.base.pretrained import Model
from outrider.contract.target import Target

PADDING = 1024
"""The most ids without a token that a vocabulary is padded with, for the sake of fast products."""


def require_same_vocabulary(model: Model, tokenizer: Any, target: Target, *, hint: str) -> None:
    """Raises `ConfigError` unless a model's token ids mean the same as the target's.

    tokenizer: the model's; None compares the sizes of the vocabularies, which may be padded.
    hint: what to do about it, for the end of the message.
    """
    model_size = int(model.config.get_text_config().vocab_size)
    sizes = f"its vocabulary has {model_size} tokens, the target's {target.vocab_size}"
    if tokenizer is None or target.tokenizer is None:
        if not _may_be_padded((model_size, target.vocab_size), target):
            loaded = "; with its tokenizer: drafter.model=(model, tokenizer)"
            raise ConfigError(f"the draft model does not fit the target: {sizes}{loaded}{hint}")
        return
    own, expected = tokenizer.get_vocab(), target.tokenizer.get_vocab()
    if own != expected:
        differing = sorted(own.items() ^ expected.items(), key=lambda item: item[1])
        raise ConfigError(
            f"the draft model does not fit the target: {sizes}, and their tokenizers disagree"
            f" on {len(differing)} entries, such as {differing[0][0]!r}{hint}"
        )


def _may_be_padded(sizes: Sequence[int], target: Target) -> bool:
    """Returns whether vocabularies differ by padding at most, as far as their sizes tell."""
    if len(set(sizes)) == 1 or target.tokenizer is None:
        return len(set(sizes)) == 1
    known = len(target.tokenizer)
    return all(known <= size <= known + PADDING for size in sizes)
