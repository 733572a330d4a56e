"""Couples drafter and target by shared noise, so the text depends on the seed alone."""

from typing import final

import torch

from outrider.base.bounds import Count, checked
from outrider.contract.chance import Chance
from outrider.contract.devices import wide
from outrider.contract.draft import Draft, Verdict
from outrider.contract.verifier import Probs, Scores, Verifier
from outrider.verifiers.sample_match import matching


@final
class Gumbel(Verifier):
    """Gumbel coupling, or drafter-invariant speculative decoding (2408.07978).

    Each position of the text has noise of its own, which follows from the seed. The pen draws a
    draft's tokens from q with it, and this rule draws the target's from p with the same noise. As
    long as the draft has the target's token, it is accepted. The noise makes the two agree with
    probability at least (1 - TV) / (1 + TV), where TV is the total variation of p and q; the token
    rule reaches 1 - TV.

    Lossless. At any temperature the text depends on the seed and the target alone, whoever drafts
    and however long the drafts are. So texts of different drafters can be compared word by word.

    With a window, the last tokens name the noise in place of the position. That is Aaronson's
    watermark: who knows the seed finds it in the text alone.

    Siblings drawn without replacement are the first tokens to arrive in the race, and if the
    target's token is among them, it is accepted.

    window: how many of the last tokens name the noise. Defaults to the position.
    """

    lossless = True
    coupled = True
    takes: frozenset[str] = frozenset({"chain", "distinct", "deterministic"})

    @checked("verifier")
    def __init__(self, window: Count | None = None) -> None:
        self.window = window

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        return matching(draft, lambda node, depth: scores.race(chance, draft, node))

    def accepts(self, q: Probs, scores: Scores, node: int) -> Probs:
        q = wide(q, scores.logits.device)
        p = wide(scores.after(node))
        return (both(p, q) / q).nan_to_num(0.0, posinf=0.0)


def both(p: Probs, q: Probs) -> Probs:
    """Returns for each token x the probability that it wins the races for p and for q.

    That is 1 / sum_y max(p(y) / p(x), q(y) / q(x)). The maximum is the first term for the y whose
    p(y) / q(y) is at least that of x, and the second for the others.
    """
    possible = (p > 0) & (q > 0)
    order = torch.where(q > 0, p / q, float("inf")).argsort()
    p, q = p[order], q[order]
    from_x_on = p.flip(0).cumsum(0).flip(0)
    before_x = q.cumsum(0) - q
    sums = from_x_on / p + before_x / q
    result = torch.zeros_like(p)
    result[order] = 1 / sums
    return torch.where(possible, result, 0.0)
