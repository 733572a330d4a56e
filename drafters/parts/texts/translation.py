"""Translation: a target's text in the ids of a drafter that has a tokenizer of its own."""

import codecs
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import ConfigError
from outrider.contract.context import Tokens
from outrider.contract.target import Target
from outrider.drafters.parts.texts.spelling import Spelling, spelling_of

WINDOW = 8
"""How many tokens of the text before it a piece of text is tokenized with."""


@final
class Translation:
    """Which tokens of a target and of a drafter are the same, by the bytes they stand for.

    Special tokens are the same if they have the same name.

    own, target: the spellings of the drafter's and of the target's tokens.
    own_ids: the drafter's id of each of the target's tokens that the drafter has too.

    Raises `ConfigError` if one of the tokenizers can't be compared, or the target has none.
    """

    def __init__(self, tokenizer: Any, size: int, target: Target) -> None:
        """Compares two tokenizers.

        tokenizer: the drafter's, a fast tokenizer of transformers.
        size: how many ids the drafter's model has.
        target: one that has a tokenizer.
        """
        if target.tokenizer is None:
            raise ConfigError("target: expected one with a tokenizer, to compare the drafter's to")
        self.own: Spelling = spelling_of(tokenizer, size)
        self.target: Spelling = spelling_of(target.tokenizer, target.vocab_size)
        own_names = {name: token for token, name in self.own.names.items()}
        self.own_ids: dict[int, int] = {
            token: own_names[name] for token, name in self.target.names.items() if name in own_names
        }
        pairs = list(self.own_ids.items())
        for token, data in enumerate(self.target.bytes_of):
            if data in self.own.ids:
                self.own_ids[token] = self.own.ids[data]
                if self.target.ids[data] == token:  # the others are read, but not written
                    pairs.append((token, self.own.ids[data]))
        self._pairs = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2)

    @property
    def shared(self) -> int:
        """Returns how many tokens a draft can have."""
        return len(self._pairs)

    def spread(self, logits: Float[Tensor, "*rows own"]) -> Float[Tensor, "*rows vocab"]:
        """Returns the drafter's logits over the target's tokens, -inf for those it lacks."""
        tokens, own = self._pairs.to(logits.device).unbind(1)
        size = (*logits.shape[:-1], len(self.target.bytes_of))
        full = logits.new_full(size, float("-inf"))
        full[..., tokens] = logits[..., own]
        return full

    def text_before(self, tokens: Tokens, end: int) -> bytes:
        """Returns the bytes of up to `WINDOW` tokens before a position, back to a special token."""
        start = end
        while start > max(0, end - WINDOW) and self.target.bytes_of[tokens[start - 1]] is not None:
            start -= 1
        return self.target.join(tokens[start:end])


@final
class OwnText:
    """A target's text in the drafter's ids, which grows with the text.

    A token that both have becomes the drafter's own. A run of tokens that the drafter lacks, up to
    the next one that it has, is tokenized anew. So the ids depend on the text alone, a longer text
    changes only the last of them, and the drafter reads a shared token as the id that it drew.

    Special tokens that the drafter lacks are left out. The ids begin with the special tokens that
    the drafter's tokenizer puts before every text.
    """

    def __init__(self, translation: Translation) -> None:
        self._translation = translation
        self._text = Tokens([])
        self._ids: list[int] = []
        # Pairs of positions, in the text and in the ids. What comes before them is final.
        self._settled: list[tuple[int, int]] = []

    def follow(self, text: Tokens) -> list[int] | None:
        """Returns the ids of a text.

        None if there are none, or if the text ends with a part of a character that the drafter has
        no token for: a draft then has to wait for the rest.
        """
        known = self._text.shared(text)
        while self._settled and self._settled[-1][0] > known:
            self._settled.pop()
        begin, length = self._settled[-1] if self._settled else (0, 0)
        self._ids, self._text = self._ids[:length], text
        target_bytes, own_ids = self._translation.target.bytes_of, self._translation.own_ids
        run = b""
        for position, token in enumerate(text[begin:], start=begin):
            data, own = target_bytes[token], own_ids.get(token)
            if data is not None and (own is None or has_open_end(run)):
                run += data
                continue
            self._ids += self._cut(begin, run)
            self._ids += () if own is None else (own,)
            begin, run = position + 1, b""
            self._settled.append((begin, len(self._ids)))
        if has_open_end(run):
            return None
        ids = self._ids + self._cut(begin, run)
        opening = list(self._translation.own.opening)
        return (ids if ids[: len(opening)] == opening else opening + ids) or None

    def _cut(self, begin: int, run: bytes) -> list[int]:
        """Returns the drafter's ids for some bytes that begin at a position of the text."""
        if not run:
            return []
        own, text = self._translation.own, run.decode(errors="ignore")
        ids = own.continued(self._translation.text_before(self._text, begin), text.encode())
        return own.encode(text) if ids is None else ids


def has_open_end(text: bytes) -> bool:
    """Returns whether a text ends with a part of a character in UTF-8."""
    return len(whole_characters(text)) < len(text)


def whole_characters(text: bytes) -> bytes:
    """Returns a text without the part of a character at its end, if there is one."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
    decoder.decode(text)
    return text[: len(text) - len(decoder.getstate()[0])]
