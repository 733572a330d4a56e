"""DataStore: texts on disk with a suffix array, so that any phrase in them is found quickly."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from outrider.base.errors import ConfigError, message_of
from outrider.base.folders import replacing, write_whole
from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.checkpoint import require_same_tokens, tokens_of

FORMAT = "outrider-datastore-1"
TOKENS, SUFFIXES = "tokens.npy", "suffixes.npy"
END = -1
"""Follows each text. No text has this id, so no match spans two texts."""

Ints = NDArray[np.int64]


@final
class DataStore:
    """The tokens of some texts, and the positions of all their suffixes in sorted order.

    Both are memory-mapped: a search reads only a few pages.
    """

    def __init__(self, tokens: NDArray[np.int32], suffixes: Ints) -> None:
        self._tokens, self._suffixes = tokens, suffixes

    @classmethod
    def open(cls, folder: Path, target: Target) -> "DataStore":
        """Returns the store in a folder; raises `ConfigError` for none, or another target's."""
        config = checkpoint.read_config(folder)
        if config.get("format") != FORMAT:
            raise ConfigError(f"drafter.path={str(folder)!r}: expected a data store")
        require_same_tokens(f"drafter.path={str(folder)!r}", config, target)
        try:
            tokens, suffixes = (
                np.load(folder / name, mmap_mode="r") for name in (TOKENS, SUFFIXES)
            )
        except (OSError, ValueError, EOFError) as error:
            line = message_of(error)
            raise ConfigError(f"drafter.path={str(folder)!r} can't be read: {line}") from error
        if not len(tokens) == len(suffixes) == config.get("length"):
            raise ConfigError(f"drafter.path={str(folder)!r}: damaged, a part of it is missing")
        return cls(tokens, suffixes)

    @classmethod
    def untrained(cls, vocab_size: int) -> "DataStore":
        """Returns a small store of random tokens."""
        random = np.random.default_rng(0).integers(0, vocab_size, 64)
        tokens = np.append(random, END).astype(np.int32)
        return cls(tokens, suffix_array(tokens))

    def find(self, phrase: Sequence[int], most: int) -> Ints:
        """Returns the positions after the occurrences of a phrase, sorted by what follows there.

        most: how many positions to return at most. Of more, evenly spaced ones are taken.
        """
        ids, order = list(phrase), range(len(self._suffixes))

        def beginning(rank: int) -> list[int]:
            start = int(self._suffixes[rank])
            tokens: list[int] = self._tokens[start : start + len(ids)].tolist()
            return tokens

        low = bisect_left(order, ids, key=beginning)
        high = bisect_right(order, ids, low, key=beginning)
        if high - low > most:
            ranks = low + np.arange(most) * (high - low) // most
            return self._suffixes[ranks] + len(ids)
        return self._suffixes[low:high] + len(ids)

    def longest(self, text: Sequence[int], lengths: range, most: int) -> Ints:
        """Returns what `find` does for the longest suffix that occurs. lengths: ascending."""
        # If a suffix occurs, all shorter ones do: search for the first that does not.
        possible = range(lengths.start, min(lengths.stop, len(text) + 1))
        suffixes = [text[len(text) - length :] for length in possible]
        count = bisect_left(suffixes, True, key=lambda suffix: not len(self.find(suffix, 1)))
        return self.find(suffixes[count - 1], most) if count else np.empty(0, np.int64)

    def following(self, positions: Ints) -> list[tuple[int, Ints]]:
        """Returns the tokens at some positions, the most frequent first, each with its positions.

        Ties go to the lower id. Positions at the end of a text are left out.

        positions: sorted by what follows there.
        """
        # Equal tokens lie side by side.
        tokens, firsts = np.unique(self._tokens[positions], return_index=True)
        groups = zip(tokens.tolist(), np.split(positions, firsts[1:]), strict=True)
        return sorted(
            ((token, group) for token, group in groups if token != END),
            key=lambda pair: -len(pair[1]),
        )


def write_store(folder: Path, texts: Iterable[Sequence[int]], target: Target) -> None:
    """Writes a store of texts in the target's tokens into a folder. It takes 12 bytes a token."""
    pieces = [np.asarray([*text, END], dtype=np.int32) for text in texts]
    tokens = np.concatenate([*pieces, np.empty(0, np.int32)])
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in ((TOKENS, tokens), (SUFFIXES, suffix_array(tokens))):
        with replacing(folder / name) as scratch, scratch.open("wb") as file:
            np.save(file, array)
    config = {"format": FORMAT, "length": len(tokens), "texts": len(pieces), **tokens_of(target)}
    write_whole(folder / checkpoint.CONFIG, json.dumps(config, indent=1) + "\n")


def suffix_array(tokens: NDArray[np.int32]) -> Ints:
    """Returns the positions of all suffixes in lexicographic order (Manber and Myers 1993).

    A suffix that is the beginning of another one comes first.
    """
    ranks = np.unique(tokens, return_inverse=True)[1].astype(np.int64)
    depth, count = 1, len(tokens)  # the ranks are by the first `depth` tokens of each suffix
    while depth < count and len(ranks) and ranks.max() + 1 < count:
        following = np.zeros(count, np.int64)  # the rank of what follows them, 0 past the end
        following[:-depth] = ranks[depth:] + 1
        ranks = np.unique(ranks * (count + 1) + following, return_inverse=True)[1].astype(np.int64)
        depth *= 2
    return np.argsort(ranks)
