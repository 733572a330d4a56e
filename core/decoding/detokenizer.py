"""Detokenizer: the characters of a text, token by token, for tokenizers of any kind."""

import re
from collections.abc import Sequence
from typing import Any, final

from outrider.base.calling import calling, returned
from outrider.base.errors import ANY_FAULT, is_fault
from outrider.base.pretrained import Tokenizer

LONGEST = 512
"""The most tokens that wait for their characters, since each time all of them are decoded."""

FEW = 16
"""The tokens that are decoded each time, so that older ones need not be."""

UNKNOWN = "\ufffd"
"""What stands for bytes that are no character, or not yet."""

CLEANED_UP = re.compile(r"(?: |(?: n)?(?: ?')+[vr]?| n)$")
"""The end of a text that transformers' `clean_up_tokenization` may shorten when more follows."""

BYTE = re.compile(r"<0x[0-9A-F]{2}>")


@final
class Detokenizer:
    """Decodes a text as it grows; its pieces add up to one `decode` of all tokens.

    Only the newest tokens are decoded, together with some before them: in many tokenizers a token's
    characters depend on its neighbours. A piece is handed out once no later token can change it;
    until then it is pending.

    before: the ids before the text. A tokenizer that drops the space of the first word, as Llama
        2's does, keeps it if there are words before it.
    skip_special_tokens: whether special tokens have no characters.
    """

    def __init__(
        self, tokenizer: Tokenizer, before: Sequence[int] = (), *, skip_special_tokens: bool = True
    ) -> None:
        self._tokenizer, self._skips = tokenizer, skip_special_tokens
        backend = getattr(tokenizer, "backend_tokenizer", None)
        decoder = getattr(backend, "decoder", None)
        steps = b"" if decoder is None else decoder.__getstate__()
        self._has_rows = b"ByteFallback" in steps
        self._skipped = frozenset[int]()
        if skip_special_tokens and (self._has_rows or backend is None):
            special = getattr(tokenizer, "all_special_ids", ())
            if backend is not None:
                added = tokenizer.added_tokens_decoder.items()
                special = [token for token, content in added if content.special]
            self._skipped = frozenset(special)  # the ids that `decode` leaves out
        self._cleans_up = bool(getattr(tokenizer, "clean_up_tokenization_spaces", False))
        self._row: int | None = None  # where in `_text` the last row of byte tokens begins
        strips = b"Strip" in steps or b"Metaspace" in steps or hasattr(tokenizer, "sp_model")
        self._window = self._anchor(before) if strips else []  # the tokens that are decoded
        self._clean = len(self._window)  # how many of them no later token depends on
        self._given = self._decoded(self._window)  # their characters that were handed out
        self._text = self._given  # all of their characters
        self.pending: str = ""

    def push(self, token: int) -> str:
        """Returns the characters that are final with `token`; `pending` holds those that are not.

        Raises `TargetError` as `text_of` does.
        """
        if token in self._skipped:
            return ""  # the tokens beside it are decoded as neighbours
        window = self._window = [*self._window, token]
        text = self._decoded(window)
        final = text[: self._final_length(text, token)]
        piece = final[len(self._given) :]
        self._text, self._given = text, self._given + piece
        self.pending = text[len(self._given) :]
        if not self.pending and (piece or len(window) > LONGEST):
            self._move_on()
        return piece

    def _final_length(self, text: str, token: int) -> int:
        """Returns how many characters no later token can change, `token` being the last."""
        if self._has_rows and self._is_byte(token):
            # A row of bytes is decoded as a whole, and one bad byte makes all of it bad.
            self._row = len(self._text) if self._row is None else self._row
            is_long = len(self._window) > LONGEST and not text.endswith(UNKNOWN)
            return len(text) if is_long else self._row
        self._row = None
        length = len(text.rstrip(UNKNOWN))
        if self._cleans_up and (end := CLEANED_UP.search(text)):
            length = min(length, end.start())
        return length

    def _move_on(self) -> None:
        """Leaves out what came before the last piece, once that is more than a few tokens."""
        before, self._clean, self._row = self._clean, len(self._window), None
        if self._clean > FEW:
            del self._window[:before]
            self._clean = len(self._window)
            self._given = self._text = self._decoded(self._window)

    def _anchor(self, before: Sequence[int]) -> list[int]:
        """Returns the last id before the text that has characters of its own, in a list."""
        for token in reversed(before[-FEW:]):
            text = self._decoded([token])
            is_byte = self._has_rows and self._is_byte(token)
            if text.strip() and UNKNOWN not in text and not is_byte:
                return [token]
        return []

    def _decoded(self, ids: list[int]) -> str:
        return text_of(self._tokenizer, ids, skip_special_tokens=self._skips)

    def _is_byte(self, token: int) -> bool:
        return bool(BYTE.fullmatch(str(self._tokenizer.convert_ids_to_tokens(token))))


def text_of(tokenizer: Any, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
    """Returns the characters of ids. Those of no token, as in a padded vocabulary, have none.

    Raises `TargetError` if the tokenizer can't decode its own tokens.
    """
    if not ids:
        return ""
    with calling("tokenizer", tokenizer):
        try:
            text: str = tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)
        except BaseException as error:
            known = [token for token in ids if _is_token(tokenizer, token)]
            if not is_fault(error) or len(known) == len(ids):
                raise
            text = text_of(tokenizer, known, skip_special_tokens=skip_special_tokens)
        return returned(text, str)


def _is_token(tokenizer: Any, token: int) -> bool:
    """Returns whether an id is that of a token, as far as a tokenizer says so."""
    try:
        return token < len(tokenizer) and tokenizer.convert_ids_to_tokens(token) is not None
    except (AttributeError, TypeError):
        return True
    except ANY_FAULT:
        return False
