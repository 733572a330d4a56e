"""Lenient: Leviathan et al.'s lenience, which trades exactness for acceptance. Lossy."""

from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.draft import Draft
from outrider.contract.verifier import Scores, Verdict, Verifier
from outrider.errors import require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.verifiers.token import acceptance, leading, residual

RESIDUALS = ("plain", "scaled")


@final
class Lenient(Verifier):
    """Accepts token x with probability min(1, p(x) / (l q(x))), l the lenience.

    From 2211.17192, Appendix A.5. No token becomes likelier than p(x) / l; over n tokens the factor
    compounds to l ** -n. There is no lower bound.

    At temperature 0 a token is accepted if p(x) >= l max p, with p as it is before it becomes a
    point mass. (The paper prints this inequality the other way round, which would make lenience 1
    accept everything.)

    lenience: l, in (0, 1]; 1 is lossless.
    residual: where the replacement of a rejected token is drawn from, which the paper leaves open:
        "plain" is norm(max(0, p - q)), "scaled" is norm(max(0, p - l q)). Both keep the bound; p
        itself would not.

    Raises `ConfigError` if the lenience is outside (0, 1], or the residual is unknown.
    """

    def __init__(self, lenience: float = 0.5, residual: str = "plain") -> None:
        require(0 < lenience <= 1, "verifier.lenience", lenience, "a number in (0, 1]")
        expected = f"one of {', '.join(RESIDUALS)}"
        require(residual in RESIDUALS, "verifier.residual", residual, expected)
        self.lenience = lenience
        self.residual = residual

    @property
    def lossless(self) -> bool:
        return self.lenience == 1

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        if scores.sampling.greedy:
            likely = self._likely(scores)
            accepted = leading([bool(likely[i, x]) for i, x in enumerate(draft.tokens)])
            return Verdict(tuple(range(accepted)), int(scores.logits[accepted].argmax()))
        accepted = leading(chance.coins(acceptance(draft, scores) / self.lenience))
        p = scores.after(accepted - 1)
        if accepted < len(draft):
            q = draft.probs[accepted]
            if q is not None and self.residual == "scaled":
                q = q * self.lenience
            p = residual(p, q, draft.tokens[accepted])
        return Verdict(tuple(range(accepted)), chance.categorical(p))

    def accepts(
        self, q: Float[Tensor, "vocab"], scores: Scores, node: int
    ) -> Float[Tensor, "vocab"]:
        if scores.sampling.greedy:
            return self._likely(scores)[node + 1].to(q.dtype)
        p = scores.after(node)
        scaled = p / (self.lenience * q.to(p.device))
        return scaled.nan_to_num(0.0, posinf=1.0).clamp(max=1)

    def ceiling(self, scores: Scores) -> Float[Tensor, "nodes+1 vocab"]:
        if scores.sampling.greedy:
            return self._likely(scores).double()
        return scores.probs / self.lenience

    def _likely(self, scores: Scores) -> Bool[Tensor, "nodes+1 vocab"]:
        if self.lossless:  # of several tokens that tie, the target writes one
            return scores.probs > 0
        # p(x) >= l max p, in logarithms: the normaliser cancels.
        floor = scores.logits.amax(-1, keepdim=True) + torch.tensor(self.lenience).log()
        return scores.logits >= floor


@hookimpl
def register_verifiers(register: Register) -> None:
    register("lenient", Lenient)
