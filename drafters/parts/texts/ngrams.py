"""N-gram counts, of a corpus or of the running text, and the distribution they give."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from outrider.base.bounds import Count, checked
from outrider.base.errors import ConfigError, message_of
from outrider.base.folders import replacing
from outrider.contract.context import Tokens

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Counts(ABC):
    """Which tokens followed each context of up to order - 1 tokens, and how often."""

    vocab_size: int
    order: int

    @property
    def base(self) -> Floats:
        """Returns the log-probabilities [vocab] of a token without any context."""
        uniform = np.full(self.vocab_size, -np.log(self.vocab_size))
        tokens, seen = self.continuations(())
        return blend(uniform, tokens, seen) if len(tokens) else uniform

    @abstractmethod
    def continuations(self, context: Sequence[int]) -> tuple[Ints, Ints]:
        """Returns the tokens that followed `context`, and the count of each."""


def log_distribution(counts: Counts, history: Sequence[int]) -> Floats:
    """Returns the log-probabilities [vocab] of the token after `history`, by interpolated back-off.

    q_m(x) = (count(x) + D q_{m-1}(x)) / (N + D), where D distinct tokens followed the last m - 1
    tokens, N times in all. q_0 is uniform. For a context that never occurred, q_m is q_{m-1}
    (Witten and Bell 1991, method C; Chen and Goodman 1999, equation 17).
    """
    logs = counts.base
    for length in range(1, min(counts.order - 1, len(history)) + 1):
        tokens, seen = counts.continuations(history[len(history) - length :])
        if not len(tokens):
            break  # then longer contexts did not occur either
        logs = blend(logs, tokens, seen)
    return logs


def blend(lower: Floats, tokens: Ints, seen: Ints) -> Floats:
    """Returns the log-probabilities [vocab] after one step of the back-off.

    Logarithms are taken of the seen tokens alone, to save time.

    lower: the log-probabilities [vocab] for a context that is one token shorter.
    tokens, seen: what followed the context, and how often.
    """
    total = int(seen.sum()) + len(tokens)
    logs: Floats = lower + np.log(len(tokens) / total)
    logs[tokens] = np.log(np.exp(logs[tokens]) + seen / total)
    return logs


@final
class NGramTable(Counts):
    """The counts of all n-grams up to `order` in a corpus; made by `fit` or `load`.

    Level m holds a sorted key for each m-gram: the index of its first m - 1 tokens at level m - 1,
    times the vocabulary size, plus its last token. So the continuations of a context are one
    slice.
    """

    def __init__(self, vocab_size: int, levels: Sequence[tuple[Ints, Ints]]) -> None:
        self.vocab_size = vocab_size
        self.order: int = len(levels)
        self._levels = list(levels)

    @classmethod
    @checked()
    def fit(cls, texts: Iterable[Sequence[int]], order: Count, vocab_size: int) -> "NGramTable":
        """Returns the counts of `texts`; n-grams do not cross from one text to the next."""
        pieces = [np.asarray(text, dtype=np.int64) for text in texts]
        tokens = np.concatenate([*pieces, np.empty(0, np.int64)])
        owner = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])
        starts, index = np.arange(len(tokens)), np.zeros(len(tokens), np.int64)
        levels = []
        for length in range(1, order + 1):
            ends = starts + length - 1
            inside = ends < len(tokens)
            inside[inside] = owner[ends[inside]] == owner[starts[inside]]
            starts, index = starts[inside], index[inside]
            keys, index, seen = np.unique(
                index * vocab_size + tokens[starts + length - 1],
                return_inverse=True,
                return_counts=True,
            )
            levels.append((keys, seen.astype(np.int64)))
        return cls(vocab_size, levels)

    @cached_property
    def base(self) -> Floats:
        return super().base

    def continuations(self, context: Sequence[int]) -> tuple[Ints, Ints]:
        row = 0
        for token, (keys, _) in zip(context, self._levels, strict=False):
            key = row * self.vocab_size + token
            row = int(np.searchsorted(keys, key))
            if row == len(keys) or keys[row] != key:
                return np.empty(0, np.int64), np.empty(0, np.int64)
        keys, seen = self._levels[len(context)]
        low, high = np.searchsorted(keys, [row * self.vocab_size, (row + 1) * self.vocab_size])
        return keys[low:high] - row * self.vocab_size, seen[low:high]

    def save(self, path: str | Path) -> None:
        """Writes the table as safetensors."""
        tensors: dict[str, Ints] = {}
        for length, (keys, seen) in enumerate(self._levels, start=1):
            tensors |= {f"keys.{length}": keys, f"counts.{length}": seen}
        metadata = {"format": "outrider-ngrams-1", "vocab_size": str(self.vocab_size)}
        with replacing(Path(path)) as scratch:
            save_file(tensors, scratch, metadata=metadata | {"order": str(self.order)})

    @classmethod
    def load(cls, path: str | Path) -> "NGramTable":
        """Returns the table in a file; raises `ConfigError` if it holds none, or is damaged."""
        try:
            with safe_open(path, "np") as file:
                metadata = file.metadata() or {}
                if metadata.get("format") != "outrider-ngrams-1":
                    raise ConfigError(f"counts={str(path)!r}: expected a table of n-gram counts")
                levels = [
                    (file.get_tensor(f"keys.{m}"), file.get_tensor(f"counts.{m}"))
                    for m in range(1, int(metadata["order"]) + 1)
                ]
        except (OSError, SafetensorError) as error:
            line = message_of(error)
            raise ConfigError(f"counts={str(path)!r} can't be read: {line}") from error
        return cls(int(metadata["vocab_size"]), levels)


@final
class RunningCounts(Counts):
    """The counts of all n-grams up to `order` in a text that grows and may be cut back."""

    def __init__(self, vocab_size: int, order: int) -> None:
        self.vocab_size = vocab_size
        self.order = order
        self._text = Tokens([])
        self._following: dict[tuple[int, ...], dict[int, int]] = {}

    def follow(self, text: Tokens) -> None:
        """Updates the counts to those of `text`, in time proportional to what has changed."""
        # An interruption would leave wrong counts, so they are dropped until all is counted.
        before, following = self._text, self._following
        self._text, self._following = Tokens([]), {}
        shared = before.shared(text)
        for end in range(shared, len(before)):
            self._count(following, before, end, -1)
        for end in range(shared, len(text)):
            self._count(following, text, end, 1)
        self._text, self._following = text, following

    def _count(
        self, counts: dict[tuple[int, ...], dict[int, int]], text: Tokens, end: int, change: int
    ) -> None:
        token = text[end]
        for length in range(min(self.order - 1, end) + 1):
            context = tuple(text[end - length : end])
            following = counts.setdefault(context, {})
            following[token] = following.get(token, 0) + change
            if not following[token]:
                del following[token]

    def continuations(self, context: Sequence[int]) -> tuple[Ints, Ints]:
        following = self._following.get(tuple(context), {})
        size = len(following)
        return (
            np.fromiter(following.keys(), np.int64, size),
            np.fromiter(following.values(), np.int64, size),
        )
