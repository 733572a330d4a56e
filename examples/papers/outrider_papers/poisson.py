"""Lists from Poisson processes (arXiv 2609.21858), from the abstract. Exact.

A position of the text has a Poisson process for each token, with a first arrival T(x) that seed and
position decide. Drafter and target look at the same arrivals and never at each other:

    the draft's list    the tokens with the smallest T(x) / q(x)
    the text            Y = argmin T(x) / p(x)

so Y has the distribution p, and the draft is right where its list has Y in it. Whoever drafts, and
however long the list is, the text of a seed is the same, which the kit checks. The pen draws a
tree's siblings as such a list when the rule is `coupled`: try `drafter.tree=4x2`.

With `window`, seed and last tokens decide the arrivals in place of the position: a watermark.

Not here: several arrivals of one token in a list, as in the paper.
"""

from typing import final

import torch
from torch import Tensor

from outrider import Chance, Draft, Scores, Verdict, Verifier


@final
class Poisson(Verifier):
    """Accepts the target's first arrival if it is in the draft's list."""

    lossless = True
    coupled = True
    takes = frozenset({"chain", "distinct"})

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        path, node = [], -1
        while True:
            token = scores.race(chance, draft, node)
            found = [child for child in draft.children(node) if draft.tokens[child] == token]
            if not found:
                return Verdict(tuple(path), token)
            node = found[0]
            path.append(node)

    def accepts(self, q: Tensor, scores: Scores, node: int) -> Tensor:
        """Returns 1 / (q(x) sum over y of max(p(y) / p(x), q(y) / q(x))), for a list of one."""
        p = scores.after(node)
        order = torch.where(q > 0, p / q, float("inf")).argsort()
        upwards, below = p[order], q[order]
        sums = upwards.flip(0).cumsum(0).flip(0) / upwards + (below.cumsum(0) - below) / below
        first = torch.zeros_like(q)
        first[order] = (1 / sums).to(q.dtype)
        return torch.where((p > 0) & (q > 0), first / q, 0.0)
