"""How likely the target took each token to be, and which others it took to be likeliest."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.round import TokenLogprob


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
            logprob, rank, tuple((id, value) for id, value in top if value > float("-inf"))
        )
        for logprob, rank, top in zip(
            chosen[:, 0].tolist(),
            ranks.tolist(),
            map(zip, ids.tolist(), values.tolist()),
            strict=True,
        )
    )
