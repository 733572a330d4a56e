"""Siblings behind one position: what a rule makes of them, and the ceiling that theory sets."""

import itertools
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch

from outrider import Chance, Draft, Sampling, Scores
from outrider.contract.draft import ROOT
from outrider.testing.enumerated import EnumeratedChance

SAMPLED = Sampling(temperature=1.0)


def pair(vocab: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns a random p and q."""
    generator = torch.Generator().manual_seed(seed)
    p, q = torch.rand(2, vocab, generator=generator, dtype=torch.float64) ** 3
    return p / p.sum(), q / q.sum()


def siblings_of(q: torch.Tensor, count: int, kind: str, chance: Chance) -> Draft:
    """Draws siblings at the root: independently, or without replacement if they are distinct."""
    tokens: list[int] = []
    laws: list[torch.Tensor] = []
    for _ in range(count):
        tokens.append(chance.categorical(q))
        laws.append(q)
        if kind == "distinct":
            q = q.clone()
            q[tokens[-1]] = 0
            q = q / q.sum()
    return Draft(tuple(tokens), (ROOT,) * count, tuple(laws), calls=(0,) * count)


def output_and_rate(
    rule: Any,
    p: torch.Tensor,
    q: torch.Tensor,
    count: int = 1,
    kind: str = "iid",
    *,
    siblings: Callable[..., Draft] = siblings_of,
) -> tuple[torch.Tensor, float]:
    """Returns the exact distribution of the first token, and how often a sibling is accepted."""
    scores = Scores(p.log().expand(count + 1, -1), SAMPLED)
    output, rate = torch.zeros_like(p), 0.0

    def play(chance: Chance) -> tuple[int, bool]:
        draft = siblings(q, count, kind, chance)
        verdict = rule.verify(draft, scores, chance)
        accepted = verdict.accepted
        return draft.tokens[accepted[0]] if accepted else verdict.next_token, bool(accepted)

    for probability, (token, was_accepted) in EnumeratedChance.outcomes(play):
        output[token] += probability
        rate += probability * was_accepted
    return output, rate


def brute_force(p: torch.Tensor, q: torch.Tensor, count: int, kind: str) -> float:
    """Returns the ceiling of such siblings."""
    return ceiling(p, EnumeratedChance.outcomes(partial(siblings_of, q, count, kind)))


def ceiling(p: torch.Tensor, drafts: Iterable[tuple[float, Draft]]) -> float:
    """Returns the value of the optimal transport, as its dual states it: over all sets of tokens.

    That is 1 + min over H of p(H) - P(all siblings in H). drafts: with their probabilities.
    """
    inside: dict[frozenset[int], float] = {}
    for probability, draft in drafts:
        tokens = frozenset(draft.tokens)
        inside[tokens] = inside.get(tokens, 0.0) + probability
    return 1 + min(
        float(p[list(chosen)].sum()) - sum(q for drawn, q in inside.items() if drawn <= {*chosen})
        for size in range(len(p) + 1)
        for chosen in itertools.combinations(range(len(p)), size)
    )
