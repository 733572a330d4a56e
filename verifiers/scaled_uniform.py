"""The token rule with a uniform number from [0, b] in place of [0, 1]."""

from typing import Annotated, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.bounds import checked
from outrider.base.expectations import Above
from outrider.contract.chance import Chance
from outrider.contract.devices import wide
from outrider.contract.draft import Draft, Verdict
from outrider.contract.verifier import Probs, Scores, Verifier
from outrider.verifiers.prefix import acceptance, verify_prefix
from outrider.verifiers.token import residual


@final
class ScaledUniform(Verifier):
    """Accepts token x if r <= p(x) / q(x), with r uniform on [0, b].

    So x is accepted with probability min(1, p(x) / (b q(x))).

    b: 1 is the token rule. Below 1 the rule is lossy: lenience b (2211.17192, Appendix A.5).
        Above 1 it is stricter than necessary.
    residual: where the replacement of a rejected token is drawn from. "own" is
        norm(max(0, p - min(q, p / b))), the part of p that accepted tokens do not cover, so that
        b >= 1 is lossless. "plain" is norm(max(0, p - q)) as in the token rule. That is lossy for
        b > 1: tokens to which q gives too little come out too often, without a bound.

    Raises `ConfigError` if b is not above 0, or the residual is unknown.
    """

    @checked("verifier")
    def __init__(
        self, b: Annotated[float, Above(0)] = 2.0, residual: Literal["own", "plain"] = "own"
    ) -> None:
        self.b = b
        self.residual = residual

    @property
    def lossless(self) -> bool:
        return self.b == 1 or (self.b > 1 and self.residual == "own")

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        rates = acceptance(draft, scores) / self.b
        # For b < 1 both residuals are the same.
        rest = self._own_residual if self.residual == "own" and self.b > 1 else residual
        return verify_prefix(draft, scores, chance, rates, rest)

    def _own_residual(self, p: Probs, q: Probs | None, token: int | None) -> Probs:
        if q is None:
            q = torch.zeros_like(p)
            q[token] = 1.0
        return (p - wide(q, p.device).minimum(p / self.b)).clamp(min=0)

    def accepts(self, q: Probs, scores: Scores, node: int) -> Probs:
        p = scores.after(node)
        scaled = p / (self.b * wide(q, p.device))
        return scaled.nan_to_num(0.0, posinf=1.0).clamp(max=1)

    def ceiling(self, scores: Scores) -> Float[Tensor, "nodes+1 vocab"]:
        if self.lossless:
            return scores.probs
        return scores.probs / self.b if self.b < 1 else torch.ones_like(scores.probs)
