"""TextStream: turns tokens into characters as they come, and finds stop strings in them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from outrider.base.errors import ConfigError, require

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@final
class TextStream:
    """The characters of one text, token by token.

    A character whose bytes are spread over several tokens appears with the last of them. The text
    ends with the first stop string that it contains, even in the middle of a token.

    stops: the strings, or a single one.

    Raises `ConfigError` for an empty stop string, or for any stop string without a tokenizer.
    """

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase | None", stops: str | Sequence[str] = ()
    ) -> None:
        from tokenizers.decoders import DecodeStream

        if isinstance(stops, str):  # not one stop string for each of its characters
            stops = (stops,)
        is_list = isinstance(stops, Sequence)
        require(is_list, "stop", stops, "a list of strings")
        for stop in stops:
            require(
                isinstance(stop, str) and stop != "", "stop", stop, "strings that are not empty"
            )
        self._backend = getattr(tokenizer, "backend_tokenizer", None)
        if stops and self._backend is None:
            raise ConfigError(
                f"stop={list(stops)}: expected none, the target's tokenizer can't decode a stream"
            )
        self._stream = DecodeStream(skip_special_tokens=True)
        self._stops = tuple(stops)
        self.text: str = ""

    def push(self, token: int) -> tuple[str, bool]:
        """Returns the characters that `token` completes, and whether they end the text."""
        if self._backend is None:
            return "", False
        piece = self._stream.step(self._backend, token) or ""
        before = len(self.text)
        text = self.text + piece
        ends = [
            start + len(stop)
            for stop in self._stops
            # A stop string that ends within this piece starts at most its own length before.
            if (start := text.find(stop, max(0, before - len(stop) + 1))) >= 0
        ]
        self.text = text[: min(ends)] if ends else text
        return self.text[before:], bool(ends)
