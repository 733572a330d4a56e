"""Verdicts that are decided where the target's pass runs, as a part of it."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from outrider.contract.chance import Chance, located
from outrider.contract.devices import wide
from outrider.contract.draft import Draft, Verdict
from outrider.contract.sampling import Sampling
from outrider.contract.target import check_flag
from outrider.contract.verifier import Decider, Scores, Verifier


@final
class _HandedIn(Chance):
    """Decides by uniform numbers on a device."""

    def __init__(self, coins: Float[Tensor, "n"], share: Float[Tensor, "1"]) -> None:
        self._coins, self._share = coins, share

    def coins(self, probs: Float[Tensor, "n"]) -> list[bool]:
        return self.flips(probs).tolist()

    def categorical(self, probs: Float[Tensor, "vocab"]) -> int:
        return int(self.pick(probs))

    def flips(self, probs: Float[Tensor, "n"]) -> Bool[Tensor, "n"]:
        return self._coins[: len(probs)] < probs

    def pick(self, probs: Float[Tensor, "vocab"]) -> Int[Tensor, "1"]:
        return located(probs[None], self._share)


@lru_cache  # of a run's, it is asked for in each round
def _unseeded(sampling: Sampling) -> Sampling:
    return replace(sampling, seed=None)


@final
@dataclass(frozen=True, slots=True)
class Judge:
    """A rule and the chain that it judges, for whoever runs the target's pass.

    decide: the rule's, as `Verifier.decider` returns it.
    """

    decide: Decider
    draft: Draft
    sampling: Sampling
    chance: Chance

    @classmethod
    def of(cls, rule: Verifier, draft: Draft, sampling: Sampling, chance: Chance) -> "Judge | None":
        """Returns what judges a draft; None if that takes the host, or other kinds of numbers."""
        decide = rule.decider(sampling)
        fits = draft.is_chain and not (rule.coupled or rule.needs)
        if decide is None or not fits or chance.ahead(0) is None:
            return None
        return cls(decide, draft, _unseeded(sampling), chance)

    @property
    def key(self) -> Hashable:
        """Returns what `run` depends on beside its tensors."""
        return self.decide, self.sampling

    def numbers(self, size: int, end: int) -> list[float]:
        """Returns what `run` is told, padded to a pass of so many tokens, which ends there.

        That is where the rows of the draft begin, the number to draw the next token with, and of
        each token its id, its coin, and 1 if it was written, not drawn. A padded token is -1, and
        its coin is false whatever its probability.
        """
        count, padding = len(self.draft), size - 1 - len(self.draft)
        shares: Sequence[float] = self.chance.ahead(1) or ()
        coins: Sequence[float] = self.chance.ahead(count, coins=True) or ()
        written = (float(row is None) for row in self.draft.probs)
        columns = ((self.draft.tokens, -1.0), (coins, float("inf")), (written, 0.0))
        padded = (number for column, blank in columns for number in (*column, *[blank] * padding))
        return [end - 1 - count, *shares, *padded]

    def run(
        self, logits: Float[Tensor, "size vocab"], numbers: Tensor, q: Tensor | None = None
    ) -> Int[Tensor, "3"]:
        """Returns what `read` takes: a function of tensors, which waits for nothing."""
        size = len(logits)
        start, share, columns = numbers[0].long(), numbers[1:2], numbers[2:].view(3, size - 1)
        tokens, coins, written = columns.unbind()
        rows = torch.arange(size, device=logits.device) + start
        logits = logits.index_select(0, rows.clamp(max=size - 1))
        places, is_token = tokens.long().clamp(min=0)[:, None], tokens >= 0
        q = numbers.new_zeros(logits.shape) if q is None else q
        q = q.scatter(1, places, q[:-1].gather(1, places) + written[:, None])
        scores, chance = Scores(logits, self.sampling), _HandedIn(coins, share)
        accepted, token = self.decide(tokens.long(), q, scores, chance)
        is_fine = logits.amax(-1).isfinite() | ~pad(is_token, (1, 0), value=True)
        return torch.cat([accepted, token, is_fine.all()[None].long()])

    def read(self, found: Callable[[], Sequence[Sequence[int]]], row: int) -> Verdict:
        """Returns the verdict, out of those of all rows; at temperature 0 it used no numbers.

        Raises:
            TargetError: the target's logits are no numbers.
            ValueError: the token was drawn from what is no distribution.
        """
        accepted, token, is_fine = found()[row]
        check_flag(bool(is_fine))
        if token < 0:
            raise ValueError("probabilities have no finite sum above zero")
        if not self.sampling.greedy:
            self.chance.coins(torch.ones(len(self.draft)))
            self.chance.share()
        return Verdict(tuple(range(accepted)), token)


@final
@dataclass(frozen=True, slots=True)
class Judges:
    """The judges of the texts of a pass, which decide together.

    rows: by row of the pass; None where there is none.
    first: one of them; all have its key.
    end: where all texts end in the pass.
    """

    rows: Sequence[Judge | None]
    first: Judge
    end: int

    @classmethod
    def of(cls, rows: Sequence[Judge | None], end: int) -> "Judges | None":
        """Returns those that decide as the first one does; None if there is none."""
        first = next((judge for judge in rows if judge), None)
        if first is None:
            return None
        return cls([it if it and it.key == first.key else None for it in rows], first, end)

    def given(self, size: int, device: torch.device) -> list[Tensor]:
        """Returns the tensors for `run` and a pass of so many tokens: numbers, and q if any."""
        judges = [judge or replace(self.first, draft=Draft()) for judge in self.rows]
        numbers = [judge.numbers(size, self.end) for judge in judges]
        given = [wide(torch.tensor(numbers, dtype=torch.float64), device)]
        probs = [it for judge in judges for it in (*judge.draft.probs, *[None] * size)[:size]]
        like = next((row for row in probs if row is not None), None)
        if like is None:
            return given
        blank = torch.zeros_like(wide(like, device))
        rows = torch.stack([blank if row is None else wide(row, device) for row in probs])
        return [*given, rows.view(len(judges), size, -1)]

    def run(self, logits: Float[Tensor, "texts size vocab"], *given: Tensor) -> Tensor:
        """Returns what `Judge.run` does, of each row."""
        if logits.device.type == "cpu":  # where NumPy finds the likeliest tokens, unlike vmap
            return torch.stack([self.first.run(*row) for row in zip(logits, *given, strict=True)])
        found: Tensor = torch.vmap(self.first.run)(logits, *given)
        return found

    def verdicts(self, found: Int[Tensor, "texts 3"]) -> list[Callable[[], Verdict] | None]:
        """Returns what reads the verdict of each row; the first to be read waits for all."""
        read = cache(found.tolist)
        return [judge and partial(judge.read, read, row) for row, judge in enumerate(self.rows)]
