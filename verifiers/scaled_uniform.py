"""ScaledUniform: the token rule with its uniform number drawn from [0, b] instead of [0, 1]."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.draft import Draft
from outrider.contract.verifier import Scores, Verdict, Verifier
from outrider.errors import require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.verifiers.token import acceptance, leading, residual

RESIDUALS = ("own", "plain")


@final
class ScaledUniform(Verifier):
    """Accepts token x where r <= p(x) / q(x), r uniform on [0, b]: with min(1, p(x) / (b q(x))).

    b: 1 is the token rule; below 1 it is lenience b (2211.17192, Appendix A.5), lossy; above 1
        the rule is stricter than it need be.
    residual: what replaces a rejected token. "own" draws from norm(max(0, p - min(q, p / b))),
        which is what accepted tokens leave of p, so that b >= 1 is lossless. "plain" draws
        from norm(max(0, p - q)) as the token rule does, which for b > 1 is lossy: tokens
        that q holds back come out too often, without a bound.

    Raises `ConfigError` for a b that is not above 0, or an unknown residual.
    """

    def __init__(self, b: float = 2.0, residual: str = "own") -> None:
        require(0 < b < float("inf"), "verifier.b", b, "a number above 0")
        known = f"one of {', '.join(RESIDUALS)}"
        require(residual in RESIDUALS, "verifier.residual", residual, known)
        self.b = b
        self.residual = residual

    @property
    def lossless(self) -> bool:
        return self.b == 1 or (self.b > 1 and self.residual == "own")

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        accepted = leading(chance.coins(acceptance(draft, scores) / self.b))
        p = scores.after(accepted - 1)
        if accepted < len(draft):
            if self.residual == "own" and self.b > 1:
                q = draft.distribution(accepted, p)
                p = (p - q.minimum(p / self.b)).clamp(min=0)
            else:  # for b < 1 the two are the same
                p = residual(p, draft.probs[accepted], draft.tokens[accepted])
        return Verdict(tuple(range(accepted)), chance.categorical(p))

    def accepts(
        self, q: Float[Tensor, "vocab"], scores: Scores, node: int
    ) -> Float[Tensor, "vocab"]:
        scaled = scores.after(node) / (self.b * q)
        return scaled.nan_to_num(0.0, posinf=1.0).clamp(max=1)

    def ceiling(self, scores: Scores) -> Float[Tensor, "nodes+1 vocab"]:
        if self.lossless:
            return scores.probs
        return scores.probs / self.b if self.b < 1 else torch.ones_like(scores.probs)


@hookimpl
def register_verifiers(register: Register) -> None:
    register("scaled_uniform", ScaledUniform)
