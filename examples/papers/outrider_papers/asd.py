"""Approximate speculative decoding, ASD (arXiv 2608.03447), from its threads and code. Lossy.

At temperature 0 a draft of K tokens is accepted as far as every mismatch i has a small regret:

    r_i = max z_i - z_i(x_i)         z: the target's logits
    sum of r over the text <= budget,    r_i / (K - i) <= gain,    at most `most` in a draft

then comes the target's likeliest token. Sampled texts, not in the paper, get the token rule. That
"a budget of 0 is strict decoding" is not true of the regret alone: of two equal logits it takes the
second, too, where strict decoding takes the first. The kit has a target with ties and finds that.
"""

import copy
from typing import Self, final

import torch

from outrider import Chance, Draft, Scores, Verdict, Verifier
from outrider.verifiers.token import Token


@final
class ASD(Verifier):
    """Spends a budget of regret on tokens that are nearly the likeliest. Lossy at temperature 0.

    budget: the most regret in a text, in units of the target's logits.
    gain: the most regret for each token that is left of a draft.
    most: how many mismatches a draft may have.
    """

    def __init__(self, budget: float = 2.0, gain: float = 0.5, most: int = 1) -> None:
        self.whole, self.gain, self.most = budget, gain, most
        self.left = budget

    @property
    def lossless(self) -> bool:
        return 0 in (self.whole, self.gain, self.most)

    def open(self) -> Self:
        text = copy.copy(self)
        text.left = self.whole
        return text

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        if self.lossless or not scores.sampling.greedy:
            return Token().verify(draft, scores, chance)
        best, mismatches = scores.logits.argmax(-1).tolist(), 0
        for node, token in enumerate(draft.tokens):
            mismatches += token != best[node]
            regret = float(scores.logits[node].max() - scores.logits[node, token])
            if mismatches > self.most or regret > min(self.left, self.gain * (len(draft) - node)):
                return Verdict(tuple(range(node)), best[node])
            self.left -= regret
        return Verdict(tuple(range(len(draft))), best[-1])

    def ceiling(self, scores: Scores) -> torch.Tensor:
        if self.lossless or not scores.sampling.greedy:
            return scores.probs
        regrets = scores.logits.amax(-1, keepdim=True) - scores.logits
        return torch.where(regrets <= self.whole, 1.0, scores.probs)
