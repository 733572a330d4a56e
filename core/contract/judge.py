"""A verdict that is decided where the target's pass runs, as a part of it."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
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
        is_drawn = {row is not None for row in draft.probs}
        fits = draft.is_chain and len(is_drawn) < 2 and not (rule.coupled or rule.needs)
        if decide is None or not fits or chance.ahead(0) is None:
            return None
        return cls(decide, draft, replace(sampling, seed=None), chance)

    @property
    def key(self) -> Hashable:
        """Returns what `run` depends on beside its tensors."""
        return self.decide, self.sampling

    def given(self, size: int, device: torch.device) -> list[Tensor]:
        """Returns the tensors for `run`, padded to a pass of so many tokens.

        A padded token is -1, its coin is false whatever its probability, and its q is 0.
        """
        count, padding = len(self.draft), size - 1 - len(self.draft)
        coins: Sequence[float] = self.chance.ahead(count, coins=True) or ()
        shares: Sequence[float] = self.chance.ahead(1) or ()
        tokens = (*self.draft.tokens, *(-1,) * padding)
        numbers = (*tokens, *coins, *(float("inf"),) * padding, *shares)
        given = [wide(torch.tensor(numbers, dtype=torch.float64), device)]
        rows = [wide(row, device) for row in self.draft.probs if row is not None]
        return [*given, pad(torch.stack(rows), (0, 0, 0, size - count))] if rows else given

    def run(
        self, logits: Float[Tensor, "size vocab"], numbers: Tensor, q: Tensor | None = None
    ) -> Int[Tensor, "3"]:
        """Returns what `read` takes: a function of tensors, which waits for nothing."""
        count = len(logits) - 1
        drawn, coins, share = numbers[:count], numbers[count:-1], numbers[-1:]
        ids, is_token = drawn.long().clamp(min=0)[:, None], drawn >= 0
        if q is None:
            points = is_token.to(numbers.dtype)[:, None]
            q = numbers.new_zeros(logits.shape).scatter(1, ids, points)
        scores, chance = Scores(logits, self.sampling), _HandedIn(coins, share)
        accepted, token = self.decide(drawn.long(), q, scores, chance)
        is_fine = logits.amax(-1).isfinite() | ~pad(is_token, (1, 0), value=True)
        return torch.cat([accepted, token, is_fine.all()[None].long()])

    def read(self, found: Int[Tensor, "3"]) -> Verdict:
        """Returns the verdict, with one wait; at temperature 0 it has used no numbers.

        Raises:
            TargetError: the target's logits are no numbers.
            ValueError: the token was drawn from what is no distribution.
        """
        accepted, token, is_fine = found.tolist()
        check_flag(is_fine)
        if token < 0:
            raise ValueError("probabilities have no finite sum above zero")
        if not self.sampling.greedy:
            self.chance.coins(torch.ones(len(self.draft)))
            self.chance.share()
        return Verdict(tuple(range(accepted)), token)
