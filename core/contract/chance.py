"""Chance: every random decision of a round, drawn to decode or enumerated to prove."""

import hashlib
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from outrider.contract.devices import wide

BLOCK = 256
"""The tokens whose probabilities are summed up together; in one block alone, one by one."""

DRAFTER = "drafter"
"""The part of a text's chance that a pen draws with."""
TARGET = "target"
"""The part that belongs to the acceptance rule, and to what the target writes by itself."""


Key = int | tuple[int, ...]


@final
@dataclass(frozen=True, slots=True)
class Noise:
    """Names the noise that decides the races after a text.

    text: the tokens so far.
    window: how many of the last tokens name the noise, with how often they have come before: so it
        follows from the text, which bears a watermark, and is never used twice. None for the
        position.
    """

    text: Sequence[int]
    window: int | None = None

    def key(self, path: Sequence[int]) -> Key:
        """Returns the name of the noise after some more tokens."""
        if self.window is None:
            return len(self.text) + len(path)
        tokens = [*self.text, *path]
        last = tokens[-self.window :]
        starts = range(len(tokens) - self.window)
        return (*last, sum(tokens[i : i + self.window] == last for i in starts))


class Chance(ABC):
    """The only source of randomness for drafters and acceptance rules."""

    @abstractmethod
    def coins(self, probs: Float[Tensor, "n"]) -> list[bool]:
        """Returns n independent coin flips; flip i is true with probability min(1, probs[i])."""

    @abstractmethod
    def categorical(self, probs: Float[Tensor, "vocab"]) -> int:
        """Returns an index drawn from `probs`, which need not sum to one.

        Raises `ValueError` if `probs` sums to zero, or holds NaN or infinity.
        """

    def flips(self, probs: Float[Tensor, "n"]) -> Bool[Tensor, "n"]:
        """Returns what `coins` returns, on the device of `probs` and without waiting for it."""
        return torch.tensor(self.coins(probs)).to(probs.device)

    def pick(self, probs: Float[Tensor, "vocab"]) -> Int[Tensor, "1"]:
        """Returns what `categorical` returns, likewise; -1 where that raises an error."""
        return picked([self], probs[None])

    def share(self) -> float | None:
        """Returns the uniform number for `token_at` that `categorical` would draw with; or None."""
        return None

    def ahead(self, count: int, *, coins: bool = False) -> Sequence[float] | None:
        """Returns what the next calls of `share` will return, and leaves it to them; or None.

        coins: return what the next coins are true below.
        """
        return None

    def race(self, probs: Float[Tensor, "vocab"], key: Key) -> int:
        """Returns an index drawn from `probs` by the noise of a position of the text, or of a key.

        All draws with a key share its noise, so close distributions mostly give the same index;
        see `winner` and `Noise`. A chance without such noise draws independently.

        Raises `ValueError` as `categorical` does.
        """
        return self.categorical(probs)

    def named(self, name: str) -> "Chance":
        """Returns the chance for one part of a text: the drafter or the target's side.

        Parts with different names are independent. This one returns itself, so that all parts share
        one enumeration.
        """
        return self

    @property
    def free(self) -> "Chance":
        """Returns what draws numbers that are no tokens: itself, unless it follows a given text."""
        return self

    @property
    def label(self) -> str | None:
        """Returns a name that chances share which decide alike; None if no other one does."""
        return None


@final
class SampledChance(Chance):
    """Draws from generators of its own: one for coins, one for tokens.

    All of them follow from one seed, as docs/measures.md writes down. A text has a key, the SHA-256
    of "outrider/SEED/NUMBER". The key of a part is the SHA-256 of the key above it and the part's
    name. A generator is numpy's Philox, with the first 16 bytes of its key. A part can't tell from
    its key what the other parts draw.

    key: 32 bytes; equal keys make equal decisions.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._ahead: deque[float] = deque()  # drawn, and left to `share`
        self._tossed: deque[float] = deque()  # likewise, and left to coins

    @classmethod
    def seeded(cls, seed: int, number: int = 0) -> "SampledChance":
        """Returns the chance of one text of a seed; the same two numbers make the same decisions.

        Its numbers come from the CPU, so a seed means the same on every device.

        number: the index of the text among those written with this seed.
        """
        return cls(hashlib.sha256(f"outrider/{seed}/{number}".encode()).digest())

    # Each is made when it is first used: many a chance only names others.
    @cached_property
    def _coins(self) -> np.random.Generator:
        return _generator(_key_of_part(self._key, "coins"))

    @cached_property
    def _tokens(self) -> np.random.Generator:
        return _generator(_key_of_part(self._key, "tokens"))

    @property
    def label(self) -> str:
        return self._key.hex()

    def named(self, name: str) -> "SampledChance":
        return SampledChance(_key_of_part(self._key, name))

    def race(self, probs: Float[Tensor, "vocab"], key: Key) -> int:
        noise = _generator(_key_of_part(self._key, f"race/{key}"))
        return winner(probs, torch.from_numpy(noise.standard_exponential(len(probs))))

    def coins(self, probs: Float[Tensor, "n"]) -> list[bool]:
        return [u < p for u, p in zip(self._uniforms(len(probs)), probs.tolist(), strict=True)]

    def categorical(self, probs: Float[Tensor, "vocab"]) -> int:
        return token_at(probs, self.share())

    def share(self) -> float:
        return self._ahead.popleft() if self._ahead else self._tokens.random()

    def ahead(self, count: int, *, coins: bool = False) -> Sequence[float]:
        drawn, source = (self._tossed, "_coins") if coins else (self._ahead, "_tokens")
        while len(drawn) < count:
            drawn.append(getattr(self, source).random())
        return list(drawn)[:count]

    def _uniforms(self, count: int) -> list[float]:
        return [self._tossed.popleft() for _ in self.ahead(count, coins=True)]

    def flips(self, probs: Float[Tensor, "n"]) -> Bool[Tensor, "n"]:
        uniforms = torch.tensor(self._uniforms(len(probs)), dtype=torch.float64)
        return wide(uniforms, probs.device) < probs


def _key_of_part(key: bytes, name: str) -> bytes:
    return hashlib.sha256(key + name.encode()).digest()


def _generator(key: bytes) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "little")))


def token_at(probs: Float[Tensor, "vocab"], share: float) -> int:
    """Returns the token whose interval holds `share` of the sum of all probabilities.

    The intervals lie side by side, in the order of the tokens, and are as wide as the
    probabilities. So a uniform share draws each token with its probability. A token of probability
    zero has an interval of width zero, and is never drawn.

    probs: on any device; summed in the widest type there, and not necessarily to 1.
    share: from 0 up to but not including 1.

    Raises `ValueError` if `probs` sums to zero, or holds NaN or infinity.
    """
    if probs.device.type != "cpu":
        token = int(located(probs[None], [share]))
        if token < 0:
            raise ValueError(f"probabilities sum to {float(probs.sum())}")
        return token
    array = probs.detach().double().numpy()
    sums = np.add.reduceat(array, np.arange(0, len(array), BLOCK))
    total = float(sums.sum())
    if not (math.isfinite(total) and total > 0):
        raise ValueError(f"probabilities sum to {total}")
    block, rest = _interval(sums, share * total)
    first = block * BLOCK
    token, _ = _interval(array[first : first + BLOCK], rest)
    return first + token


def _interval(widths: np.ndarray[Any, Any], u: float) -> tuple[int, float]:
    """Returns which of the intervals side by side from 0 holds u, and how far into it u is.

    Rounding may lift u to the end of them all. Then it is the last one of any width.
    """
    ends = widths.cumsum()
    index = int(ends.searchsorted(min(u, math.nextafter(ends[-1], 0)), side="right"))
    return index, u - float(ends[index - 1]) if index else u


def picked(chances: Sequence[Chance], probs: Float[Tensor, "rows vocab"]) -> Int[Tensor, "rows"]:
    """Returns what each chance's `pick` returns for a row of its own."""
    shares = [chance.share() for chance in chances]
    drawn = [share for share in shares if share is not None]
    if len(drawn) == len(chances):
        return located(probs, drawn)
    rows = zip(chances, probs, strict=True)
    return torch.tensor([chance.categorical(row) for chance, row in rows]).to(probs.device)


def located(
    probs: Float[Tensor, "rows vocab"], shares: Sequence[float] | Float[Tensor, "rows"]
) -> Int[Tensor, "rows"]:
    """Returns each row's token by `token_at`, found on the device of `probs`, not waiting for it.

    In float64 the two differ only where a bound between tokens is off by rounding, with probability
    1e-12 or so. In float32, which is all that some devices have, by 1e-6 or so. -1 stands for
    probabilities with no finite sum above zero.
    """
    exact = wide(probs.detach())
    blocks = pad(exact, (0, -exact.shape[-1] % BLOCK)).view(len(exact), -1, BLOCK)
    sums = blocks.sum(-1)
    total = sums.sum(-1)
    share: Any = shares[0]
    if isinstance(shares, Tensor):
        share = shares
    elif len(shares) > 1:
        share = wide(torch.tensor(shares, dtype=torch.float64), exact.device)
    block, rest = _interval_there(sums, share * total)
    inner = blocks.take_along_dim(block[:, :, None], 1)[:, 0]
    token, _ = _interval_there(inner, rest)
    found = (block * BLOCK + token)[:, 0]
    return torch.where((total > 0) & total.isfinite(), found, -1)


def _interval_there(
    widths: Float[Tensor, "rows n"], u: Float[Tensor, "rows"]
) -> tuple[Int[Tensor, "rows 1"], Float[Tensor, "rows"]]:
    """Returns what `_interval` returns for each row, without waiting for the device."""
    ends = widths.cumsum(-1)
    below = u.minimum(ends[:, -1] * (1 - torch.finfo(ends.dtype).eps))[:, None]
    index = (ends <= below).sum(-1, keepdim=True).clamp(max=ends.shape[-1] - 1)
    return index, u - pad(ends, (1, 0)).gather(-1, index)[:, 0]


def winner(probs: Float[Tensor, "vocab"], times: Float[Tensor, "vocab"]) -> int:
    """Returns the token with the smallest time / probability.

    Every token x has an exponential arrival time E(x), and the draw is the x with the smallest
    E(x) / p(x). That has the distribution p, and is the Gumbel-max trick in other words. Two who
    draw with the same E from p and q get the same token x with probability
    1 / sum_y max(p(y) / p(x), q(y) / q(x)) (2408.07978).

    Raises `ValueError` if `probs` sums to zero, or holds NaN or infinity.
    """
    exact = wide(probs.detach())
    arrivals = torch.where(exact > 0, wide(times, exact.device) / exact, float("inf"))
    # Any token has a number that float32 can hold, so that one copy brings both.
    total, token = torch.stack([exact.sum(), arrivals.argmin().to(exact.dtype)]).tolist()
    if not 0 < total < float("inf"):
        raise ValueError(f"probabilities sum to {total}")
    return int(token)
