"""Block verification of the best of several independent paths."""

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from outrider.base.errors import DrafterError
from outrider.contract.chance import Chance
from outrider.contract.devices import wide
from outrider.contract.draft import ROOT, Draft, Verdict
from outrider.contract.verifier import Probs, Ratios, Scores, Verifier
from outrider.verifiers.block import Block, blockwise


@final
class MultiPathBlock(Verifier):
    """Greedy multi-path block verification (2602.16961).

    At each prefix the tokens are ranked by p / q, in one strict order even where ratios tie. The
    lexicographically largest of the K paths is chosen. As the largest of K draws it has the
    distribution function F^K, where F is that of one path. Block verification of that path under
    that distribution is lossless. (If ties were left open, it would not be.) With one path it is
    block verification. With more than four paths, rounding limits the accuracy.
    """

    lossless = True
    takes: frozenset[str] = frozenset({"chain", "paths"})

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        paths = [_path_from(draft, child) for child in draft.children(ROOT)]
        if len({len(path) for path in paths}) > 1:
            raise DrafterError(
                "wrote paths of different lengths: multi_path_block takes equal ones"
            )
        if len(paths) == 1:
            return Block().verify(draft, scores, chance)
        probs: list[Tensor] = []
        below, joint = 0.0, 1.0  # the mass of all paths ranked below the prefix, and its own mass
        while paths and len(probs) < len(paths[0]):
            depth = len(probs)
            node = paths[0][depth - 1] if depth else ROOT
            p = wide(scores.after(node))
            q = wide(draft.distribution(paths[0][depth], p))
            order = ranked(p, q)
            rank = torch.empty_like(order)
            rank[order] = torch.arange(len(order), device=order.device)
            best = max(int(rank[draft.tokens[nodes[depth]]]) for nodes in paths)
            token = int(order[best])
            paths = [nodes for nodes in paths if draft.tokens[nodes[depth]] == token]
            smaller = torch.zeros_like(q)  # for each token, the mass of those ranked below it
            rising = q[order]
            smaller[order] = rising.cumsum(0) - rising
            probs.append(largest_of(len(draft.children(ROOT)), q, below + joint * smaller, joint))
            below += joint * float(smaller[token])
            joint *= float(q[token])
        path = paths[0] if paths else ()
        chosen = Draft(
            tuple(draft.tokens[node] for node in path),
            tuple(range(-1, len(path) - 1)),
            tuple(probs),
        )
        rows = torch.tensor([0, *(node + 1 for node in path)])
        verdict = Block().verify(chosen, Scores(scores.logits[rows], scores.sampling), chance)
        return Verdict(tuple(path[step] for step in verdict.accepted), verdict.next_token)

    def accepts_along(self, ratios: Ratios) -> Ratios:
        return blockwise(ratios)


def ranked(p: Probs, q: Probs) -> Int[Tensor, "vocab"]:
    """Returns the tokens in rising order of p / q.

    Ties may fall either way: the choice of the path and its distribution both use this one order.
    """
    ratio = (p / q).nan_to_num(0.0, posinf=float("inf"))
    # four times as fast as torch's own argsort
    return torch.from_numpy(np.argsort(ratio.cpu().numpy())).to(p.device)


def largest_of(paths: int, q: Probs, before: Probs, joint: float) -> Probs:
    """Returns the distribution of the next token of the largest of several paths.

    paths: their number, K.
    before: for each token, the mass of all paths ranked below it.
    joint: the mass of the prefix.
    """
    upto = before + joint * q
    # (upto^K - before^K) / (upto - before), computed as the sum of upto^i before^(K - 1 - i), since
    # the difference would lose digits.
    weight, power = torch.ones_like(q), torch.ones_like(q)
    for _ in range(paths - 1):
        power = power * before
        weight = weight * upto + power
    probs = q * weight
    return probs / probs.sum()


def _path_from(draft: Draft, node: int) -> Sequence[int]:
    path = [node]
    while children := draft.children(path[-1]):
        if len(children) > 1:
            raise DrafterError("wrote siblings below the first token: multi_path_block takes paths")
        path.append(children[0])
    return path
