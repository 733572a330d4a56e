"""Tiny fast tokenizers of the two common kinds, with vocabularies that are spelled out."""

from collections.abc import Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

LETTERS: dict[int, str] = bytes_to_unicode()
"""By byte, the letter that GPT-2's tokenizer writes for it."""


def wrapped(
    backend: Tokenizer, specials: Sequence[str] = (), opening: str | None = None, **names: str
) -> Any:
    """Returns a tokenizer of transformers, after its special tokens have got the next ids.

    names: of tokens with a role, such as unk_token.
    """
    backend.add_special_tokens([AddedToken(name, special=True) for name in specials])
    if opening is not None:
        backend.post_processor = processors.TemplateProcessing(
            single=f"{opening} $A", special_tokens=[(opening, backend.token_to_id(opening))]
        )
    return PreTrainedTokenizerFast(tokenizer_object=backend, **names)


def byte_level(
    alphabet: bytes,
    merges: Sequence[tuple[bytes, bytes]] = (),
    specials: Sequence[str] = (),
    opening: str | None = None,
) -> Any:
    """Returns a byte-level BPE, as GPT-2's: bytes get the first ids, then each merge the next."""
    pairs = [(as_letters(left), as_letters(right)) for left, right in merges]
    tokens = [*(as_letters(bytes([byte])) for byte in alphabet), *map("".join, pairs)]
    backend = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, pairs))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return wrapped(backend, specials, opening)


def as_letters(data: bytes) -> str:
    """Returns what a byte-level tokenizer writes for some bytes, which may be part of a letter."""
    return "".join(LETTERS[byte] for byte in data)


def unigram(
    pieces: Sequence[str], specials: Sequence[str] = (), opening: str | None = None, **options: Any
) -> Any:
    """Returns a Unigram tokenizer, as sentencepiece's: "<unk>" is 0, and "▁" stands for a space.

    options: `byte_fallback`, for which there have to be pieces "<0x00>" to "<0xFF>".
    """
    scored = [("<unk>", -20.0), *((piece, -1.0 - 0.01 * i) for i, piece in enumerate(pieces))]
    backend = Tokenizer(models.Unigram(scored, unk_id=0, **options))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return wrapped(backend, specials, opening, unk_token="<unk>")
