"""Speculative decoding in one file: what Outrider does, with nothing but PyTorch.

Leviathan et al. (arXiv 2211.17192), Algorithm 1. A model is a function from the ids of a text to
logits, a row after each token. There are no caches, batches or trees, and no temperature.

python docs/the_loop.py
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

Model = Callable[[list[int]], Tensor]


def draw(probs: Tensor) -> int:
    return int(torch.multinomial(probs, 1))


def coin(probability: Tensor) -> bool:
    return bool(torch.rand(()) < probability)


def propose(drafter: Model, tokens: list[int], gamma: int) -> tuple[list[int], list[Tensor]]:
    """Draws one token after another; returns them, and the distributions that they came from."""
    draft: list[int] = []
    q: list[Tensor] = []
    for _ in range(gamma):
        q.append(drafter(tokens + draft)[-1].softmax(-1))
        draft.append(draw(q[-1]))
    return draft, q


def verify(draft: list[int], q: list[Tensor], p: Tensor) -> list[int]:
    """Returns the tokens to keep: accepted ones, and one more that the target draws."""
    for i, x in enumerate(draft):
        if coin((p[i][x] / q[i][x]).clamp(max=1)):
            continue
        residual = (p[i] - q[i]).clamp(min=0)  # what the accepted draws leave of p
        return [*draft[:i], draw(residual / residual.sum())]
    return [*draft, draw(p[-1])]  # the bonus token


def decode(
    target: Model, drafter: Model, tokens: list[int], gamma: int, max_new_tokens: int
) -> Iterator[list[int]]:
    """Yields the tokens of each round. The text has the distribution of the target's own texts."""
    end = len(tokens) + max_new_tokens
    while len(tokens) < end:
        draft, q = propose(drafter, tokens, min(gamma, end - len(tokens) - 1))
        logits = target(tokens + draft)  # one pass, whatever the length of the draft
        kept = verify(draft, q, logits[len(tokens) - 1 :].softmax(-1))
        tokens = tokens + kept
        yield kept


if __name__ == "__main__":
    table = torch.randn(10, 10)  # the logits of the token after each token
    worse = table + 0.7 * torch.randn(10, 10)
    for kept in decode(lambda ids: table[ids], lambda ids: worse[ids], [0], 4, 40):
        print(*kept)
