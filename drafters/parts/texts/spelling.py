"""Spelling: the bytes that each token stands for, to compare the tokens of two tokenizers."""

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, final

from outrider.base.errors import ConfigError

LINE = b"\n"
"""A text to put before another one: tokens rarely span the end of a line."""


@final
class Spelling:
    """What the tokens of a tokenizer stand for inside a text.

    The space marks of sentencepiece, the letters that byte-level tokenizers write for bytes, and
    the tokens of single bytes are all turned back into bytes. So a token can be compared with one
    of any other tokenizer, and may be a part of a character.

    bytes_of: the bytes of each id; None for special tokens and for ids that stand for nothing.
    names: the special tokens by id, as they are written in a vocabulary.
    ids: the id of each string of bytes; of several, the one with the shortest name.
    opening: the special tokens that the tokenizer puts before a text.

    Raises `ConfigError` for a tokenizer that does not say what its tokens stand for.
    """

    def __init__(self, tokenizer: Any, size: int) -> None:
        """Reads a tokenizer.

        tokenizer: a fast tokenizer of transformers.
        size: how many ids its model has; any further ones are left out.
        """
        name = type(tokenizer).__name__
        if not getattr(tokenizer, "is_fast", False):
            raise ConfigError(f"tokenizer {name}: expected a fast one, with a tokenizer.json")
        backend = tokenizer.backend_tokenizer
        decoder = backend.decoder  # whose state is its part of tokenizer.json
        steps = _steps(decoder and json.loads(decoder.__getstate__()), name)
        added = tokenizer.added_tokens_decoder
        special = {token for token, entry in added.items() if entry.special}
        special |= set(tokenizer.all_special_ids)
        entries = sorted(backend.get_vocab().items(), key=lambda entry: (len(entry[0]), entry[1]))
        bytes_of: list[bytes | None] = [None] * size
        self.names: dict[int, str] = {}
        self.ids: dict[bytes, int] = {}
        for text, token in entries:
            if token in special and token < size:
                self.names[token] = text
            elif token < size and (data := _spelled(text, steps)):
                bytes_of[token] = data
                self.ids.setdefault(data, token)
        self.bytes_of: tuple[bytes | None, ...] = tuple(bytes_of)
        self._tokenizer = tokenizer
        self.opening: tuple[int, ...] = self._opening()

    def _opening(self) -> tuple[int, ...]:
        sample = next((text for data in self.ids if (text := data.decode(errors="ignore"))), "")
        encoded = self._tokenizer(sample, return_special_tokens_mask=True, verbose=False)
        pairs = zip(encoded["input_ids"], encoded["special_tokens_mask"], strict=True)
        return tuple(token for token, _ in itertools.takewhile(lambda pair: pair[1], pairs))

    def join(self, tokens: Iterable[int]) -> bytes:
        """Returns the bytes of some tokens; special tokens have none."""
        return b"".join(self.bytes_of[token] or b"" for token in tokens)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text by itself, without special tokens around it.

        Ids that the model does not have are left out.
        """
        ids = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return [int(token) for token in ids if token < len(self.bytes_of)]

    def continued(self, before: bytes, text: bytes) -> list[int] | None:
        """Returns the ids of a text that follows another one, None if no ids spell it.

        The ids stand for exactly the bytes of `text`. If the tokenizer joins it to the end of
        `before`, it is tokenized at the beginning of a line instead, and then by itself.
        """
        for lead in (_without_a_broken_start(before), LINE, b""):
            try:
                joined = (lead + text).decode()
            except UnicodeDecodeError:
                continue
            ids = self._ending(self.encode(joined), text)
            if ids is not None:
                return ids
        return None

    def _ending(self, ids: Sequence[int], text: bytes) -> list[int] | None:
        """Returns the last ids, as many as spell `text`; None if no number of them does."""
        start, length = len(ids), 0
        while start and length < len(text):
            start -= 1
            data = self.bytes_of[ids[start]]
            if data is None:
                return None
            length += len(data)
        ending = list(ids[start:])
        return ending if self.join(ending) == text else None


@lru_cache(maxsize=4)
def spelling_of(tokenizer: Any, size: int) -> Spelling:
    """Returns the spelling of a tokenizer's tokens; it is read once, for all drafters."""
    return Spelling(tokenizer, size)


def _without_a_broken_start(text: bytes) -> bytes:
    """Returns a text in UTF-8 without the rest of a character at its beginning."""
    start = next((at for at, byte in enumerate(text) if byte & 0xC0 != 0x80), len(text))
    return text[start:]


def _steps(decoder: Mapping[str, Any] | None, name: str) -> tuple[tuple[str, Any], ...]:
    """Returns the steps of a decoder of the tokenizers library, as pairs of kind and setting.

    Raises `ConfigError` if it has a step that does not work token by token.
    """
    if decoder is None:  # tokens are words
        return (("WordPiece", ""),)
    kind = decoder["type"]
    if kind == "Sequence":
        return tuple(step for part in decoder["decoders"] for step in _steps(part, name))
    if kind == "Replace" and "String" in decoder["pattern"]:
        return ((kind, (decoder["pattern"]["String"], decoder["content"])),)
    if kind == "Metaspace":
        return (("Replace", (decoder["replacement"], " ")),)
    if kind == "BPEDecoder":
        return (("Replace", (decoder["suffix"], " ")),)
    if kind == "WordPiece":
        return ((kind, decoder["prefix"]),)
    if kind in ("ByteLevel", "ByteFallback"):
        return ((kind, None),)
    if kind in ("Fuse", "Strip"):  # they change a text as a whole, at its ends
        return ()
    raise ConfigError(f"tokenizer {name}: its decoder has a step {kind}, which reads whole texts")


def _spelled(text: str, steps: Sequence[tuple[str, Any]]) -> bytes:
    """Returns the bytes that a token stands for inside a text."""
    for kind, setting in steps:
        if kind == "Replace":
            text = text.replace(*setting)
        elif kind == "WordPiece":  # a token without the prefix begins a word
            is_inner = setting and text.startswith(setting)
            text = text.removeprefix(setting) if is_inner else f" {text}"
        elif kind == "ByteFallback" and re.fullmatch("<0x[0-9A-F]{2}>", text):
            return bytes([int(text[3:5], 16)])
        elif kind == "ByteLevel" and all(letter in _byte_letters() for letter in text):
            return bytes(_byte_letters()[letter] for letter in text)
    return text.encode(errors="ignore")


@cache
def _byte_letters() -> dict[str, int]:
    """Returns the byte behind each letter of a byte-level token.

    Printable bytes are their own letters, as in Latin-1; the others are numbered from U+0100, as in
    GPT-2.
    """
    ranges = (range(ord("!"), ord("~") + 1), range(0xA1, 0xAD), range(0xAE, 0x100))
    printable = {byte for codes in ranges for byte in codes}
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(0x100 + rank): byte for rank, byte in enumerate(others)}
