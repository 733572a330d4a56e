"""TokenLogprob: how likely the target itself finds a token of the text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor


@final
@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """The log-probability of one token of the text, and of the likeliest tokens in its place.

    The distribution is the target's own: the softmax of its logits, before the run's sampling and
    before constraints. vLLM calls these `raw_logprobs`, its default. Logarithms are natural.

    logprob: of the token itself.
    rank: the rank of the token in the vocabulary, 1 for the likeliest.
    top: the likeliest tokens, as pairs of id and log-probability, the likeliest first. Tokens of
        probability zero are left out.
    """

    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...] = ()


def token_logprobs(
    logits: Float[Tensor, "tokens vocab"], tokens: Sequence[int], count: int
) -> tuple[TokenLogprob, ...]:
    """Returns the log-probability of each token.

    logits: the target's, a row for each token.
    count: how many of the likeliest tokens to list; more than the vocabulary lists all of it.
    """
    rows = logits if logits.dtype == torch.float64 else logits.float()
    rows = rows.log_softmax(-1)
    chosen = rows.gather(-1, torch.tensor(tokens, device=rows.device)[:, None])
    ranks = (rows > chosen).sum(-1) + 1
    values, ids = rows.topk(min(count, rows.shape[-1]))
    return tuple(
        TokenLogprob(
            logprob,
            rank,
            tuple((id, value) for id, value in top if value > float("-inf")),
        )
        for logprob, rank, top in zip(
            chosen[:, 0].tolist(),
            ranks.tolist(),
            map(zip, ids.tolist(), values.tolist()),
            strict=True,
        )
    )
