"""Approximate speculative decoding, ASD (arXiv 2608.03447), from its threads and code. Lossy.

At temperature 0 a draft of K tokens is accepted as far as every mismatch i has a small regret:

    r_i = max z_i - z_i(x_i)         z: the target's logits
    sum of r over the text <= budget,    r_i / (K - i) <= gain,    at most `most` in a draft

then comes the target's likeliest token. The budget belongs to the text, so the rule has a state,
which `open` starts over. Sampled texts are not in the paper; here they get the token rule.

"A budget of 0 is strict decoding" is true only because mismatches are counted too. A rule that
looks at the regret alone takes the second of two equal logits, where strict decoding takes the
first: the kit has a target with ties and finds that.
"""

import copy
from typing import Self, final

import torch
from torch import Tensor

from outrider import Chance, Draft, Scores, Verdict, Verifier
from outrider.base.bounds import NonNegative, checked
from outrider.verifiers.token import Token

EXACT = Token()


@final
class ASD(Verifier):
    """Spends a budget of regret on tokens that are nearly the likeliest. Lossy at temperature 0.

    budget: the most regret in a text, in units of the target's logits.
    gain: the most regret for each token that is left of a draft.
    most: how many mismatches a draft may have.
    """

    @checked("verifier")
    def __init__(self, budget: NonNegative = 2.0, gain: NonNegative = 0.5, most: int = 1) -> None:
        self.budget_of_text, self.gain, self.most = budget, gain, most
        self.left = budget

    @property
    def lossless(self) -> bool:
        return 0 in (self.budget_of_text, self.gain, self.most)

    def open(self) -> Self:
        text = copy.copy(self)
        text.left = self.budget_of_text
        return text

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        if self.lossless or not scores.sampling.greedy:
            return EXACT.verify(draft, scores, chance)
        best = scores.logits.argmax(-1).tolist()
        accepted, mismatches = 0, 0
        for node, token in enumerate(draft.tokens):
            if token != best[node]:
                regret = float(self.regrets(scores.logits[node])[token])
                mismatches += 1
                value = self.gain * (len(draft) - node)
                if regret > min(self.left, value) or mismatches > self.most:
                    break
                self.left -= regret
            accepted += 1
        return Verdict(tuple(range(accepted)), best[accepted])

    def ceiling(self, scores: Scores) -> Tensor:
        if self.lossless or not scores.sampling.greedy:
            return scores.probs
        return torch.where(self.regrets(scores.logits) <= self.budget_of_text, 1.0, scores.probs)

    def regrets(self, logits: Tensor) -> Tensor:
        return logits.amax(-1, keepdim=True) - logits
