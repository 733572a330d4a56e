"""Accepting the first tokens of a chain, each by a coin of its own."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.devices import placed, wide
from outrider.contract.draft import Draft, Verdict
from outrider.contract.verifier import Decider, Decision, Probs, Scores

Rest = Callable[[Tensor, Tensor | None, int | None], Tensor]
"""Maps p, q and a rejected token to the distribution of the token in its place, not normalised.

q is None for a point mass on that token. Of a token that was accepted q is zero everywhere, and the
token None: then p is to be returned.
"""


def verify_prefix(
    draft: Draft,
    scores: Scores,
    chance: Chance,
    rates: Float[Tensor, "gamma"],
    rest: Rest,
    *,
    factors: Sequence[float] | None = None,
) -> Verdict:
    """Returns the tokens before the first coin that is false, and one drawn from what is left.

    On an accelerator coins, residual and draw stay on the device: the verdict takes one wait.

    rates: the probability of each coin.
    factors: what to multiply each q by before `rest` is asked. Defaults to 1.
    """
    if scores.logits.device.type != "cpu":
        return read(*decided(rates, drafted(draft, scores, factors), scores, chance, rest))
    length = leading(chance.coins(rates)) if draft else 0
    p = scores.after(length - 1)
    if length < len(draft):
        row = draft.probs[length]
        if row is not None and factors is not None:
            row = row * factors[length]
        p = rest(p, row, draft.tokens[length])
    return Verdict(tuple(range(length)), chance.categorical(p))


def decided(
    rates: Float[Tensor, "gamma"],
    q: Float[Tensor, "gamma+1 vocab"],
    scores: Scores,
    chance: Chance,
    rest: Rest,
) -> Decision:
    """Decides as `verify_prefix` does, and waits for nothing. q: as `drafted` returns it."""
    accepted = leading_there(chance.flips(rates))
    p, q = wide(scores.probs.index_select(0, accepted)[0]), q.index_select(0, accepted)[0]
    return accepted, chance.pick(rest(p, q, None))


def verdict_on_device(decide: Decider, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
    """Returns what is decided on a chain from the whole of it at once, with one wait."""
    tokens = placed(draft.tokens, scores.logits.device)
    return read(*decide(tokens, drafted(draft, scores), scores, chance))


def read(accepted: Int[Tensor, "1"], token: Int[Tensor, "1"]) -> Verdict:
    """Returns the verdict on a chain that a device has decided, with one wait.

    Raises `ValueError` if the token was drawn from what is no distribution.
    """
    length, next_token = torch.cat([accepted, token]).tolist()
    if next_token < 0:
        raise ValueError("probabilities have no finite sum above zero")
    return Verdict(tuple(range(length)), next_token)


def drafted(
    draft: Draft, scores: Scores, factors: Sequence[float] | None = None
) -> Float[Tensor, "gamma+1 vocab"]:
    """Returns the q of each token of a chain, on the target's device; the last row is zero.

    factors: what to multiply each row by. Defaults to 1.
    """
    like = wide(scores.probs[0])
    rows = [draft.distribution(node, like) for node in range(len(draft))]
    if factors is not None:
        rows = [row * factor for row, factor in zip(rows, factors, strict=True)]
    return torch.stack([*rows, torch.zeros_like(like)])


def acceptance(draft: Draft, scores: Scores) -> Float[Tensor, "gamma"]:
    """Returns p(x) / q(x) for each token of a chain; q(x) is 1 if q is a point mass."""
    nodes = list(enumerate(draft.tokens))
    if not nodes:
        return wide(scores.probs.new_zeros(0))
    one = scores.probs.new_ones(())
    p = torch.stack([scores.probs[node, token] for node, token in nodes])
    q = [one if (row := draft.probs[node]) is None else row[token] for node, token in nodes]
    here = [share if share.device == p.device else wide(share, p.device) for share in q]
    return wide(p) / wide(torch.stack(here))


def ratios(
    tokens: Int[Tensor, "gamma"], q: Float[Tensor, "gamma+1 vocab"], scores: Scores
) -> Float[Tensor, "gamma"]:
    """Returns what `acceptance` does, of what a `Decider` is given."""
    pair = (rows[:-1].gather(1, tokens.clamp(min=0)[:, None]) for rows in (scores.probs, q))
    above, below = (wide(column[:, 0]) for column in pair)
    return above / below


def leading(coins: list[bool]) -> int:
    """Returns the number of true coins before the first false one."""
    return coins.index(False) if False in coins else len(coins)


def leading_there(coins: Bool[Tensor, "gamma"]) -> Int[Tensor, "1"]:
    """Returns what `leading` does, where the coins are."""
    return coins.long().cumprod(0).sum(0, keepdim=True)


def remaining(rest: Probs, p: Probs) -> Probs:
    """Returns what is left of a distribution, or p if nothing is, without waiting for a device."""
    if rest.device.type != "cpu":
        return torch.where(rest.any(), rest, wide(p))
    return rest if rest.any() else p
