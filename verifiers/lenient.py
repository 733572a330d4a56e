"""The token rule with p(x) / q(x) divided by a factor: lenience, and a scaled uniform number."""

from typing import Annotated, ClassVar, Literal, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from outrider.base.bounds import checked
from outrider.base.errors import require
from outrider.base.expectations import Above, Within
from outrider.contract.chance import Chance
from outrider.contract.devices import wide
from outrider.contract.draft import Draft, Verdict
from outrider.contract.sampling import likeliest
from outrider.contract.verifier import Probs, Scores, Verifier, VerifierExample
from outrider.verifiers.prefix import acceptance, leading, verify_prefix
from outrider.verifiers.token import residual, token_rates


@final
class Lenient(Verifier):
    """The token rule, but more lenient: min(1, p(x) / (l q(x))), l the lenience.

    From 2211.17192, Appendix A.5. No token becomes likelier than p(x) / l; over n tokens the factor
    compounds to l ** -n. There is no lower bound.

    At temperature 0 a token is accepted if p(x) >= l max p, with p as it is before it becomes a
    point mass. (The paper prints this inequality the other way round, which would make lenience 1
    accept everything.)

    lenience: l, in (0, 1]; 1 is lossless.
    residual: where the replacement of a rejected token is drawn from, which the paper leaves open:
        "plain" is norm(max(0, p - q)), "scaled" is norm(max(0, p - l q)). Both keep the bound; p
        itself would not.
    within: two ids, of an opening and a closing token, such as those of <think> and </think>. Only
        the tokens between them, up to the closing one itself, are accepted leniently; elsewhere
        the rule is the token rule. It looks at the text before the draft for that. Defaults to
        None: everywhere.

    Raises `ConfigError` if `within` is not two different ids.
    """

    examples: ClassVar[tuple[VerifierExample, ...]] = (
        VerifierExample(
            p=(0.5, 0.3, 0.2), q=(0.1, 0.1, 0.8), accepted=0.6, text=(11 / 30, 7 / 30, 0.4)
        ),
        VerifierExample(
            p=(0.5, 0.3, 0.2),
            q=(0.1, 0.1, 0.8),
            accepted=0.6,
            text=(5 / 14, 17 / 70, 0.4),
            settings={"residual": "scaled"},
        ),
        # At temperature 0, .31 is at least half of .6, and .2 is not.
        VerifierExample(
            p=(0.6, 0.31, 0.09), q=(0, 1, 0), accepted=1, text=(0, 1, 0), temperature=0
        ),
        VerifierExample(p=(0.6, 0.2, 0.2), q=(0, 1, 0), accepted=0, text=(1, 0, 0), temperature=0),
        # Token 2 opens: only behind it is a token judged leniently.
        VerifierExample(
            p=(0.5, 0.3, 0.2), q=(0.1, 0.1, 0.8), gamma=2, accepted=0.6, settings={"within": [2, 1]}
        ),
    )

    @checked("verifier")
    def __init__(
        self,
        lenience: Annotated[float, Within("(0, 1]")] = 0.5,
        residual: Literal["plain", "scaled"] = "plain",
        within: list[int] | None = None,
    ) -> None:
        is_pair = within is None or (len(set(within)) == len(within) == 2)
        expected = "two ids, of the opening and the closing token, or none"
        require(is_pair, "verifier.within", within, expected)
        self.lenience = lenience
        self.residual = residual
        self.within = within

    @property
    def lossless(self) -> bool:
        return self.lenience == 1

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        lenient = self._lenient_at(draft, scores)
        if scores.sampling.greedy:
            likely, best_rows = self._likely(scores), likeliest(scores.logits)
            kept = [likely[node, token] for node, token in enumerate(draft.tokens)]
            # One copy brings both.
            read = torch.stack([*kept, *best_rows.unbind()]).tolist()
            is_likely, best = read[: len(draft)], read[len(draft) :]
            accepted = leading(
                [is_likely[i] if lenient[i] else x == best[i] for i, x in enumerate(draft.tokens)]
            )
            return Verdict(tuple(range(accepted)), best[accepted])
        rates = acceptance(draft, scores)
        lenience = [self.lenience if is_lenient else 1.0 for is_lenient in lenient]
        divisors = wide(torch.tensor(lenience, dtype=torch.float64), rates.device)
        factors = [
            share if probs is not None else 1.0
            for share, probs in zip(lenience, draft.probs, strict=True)
        ]
        return verify_prefix(
            draft,
            scores,
            chance,
            rates / divisors,
            residual,
            factors=factors if self.residual == "scaled" else None,
        )

    def accepts(self, q: Probs, scores: Scores, node: int) -> Probs | None:
        if self.within is not None:  # it depends on the tokens before `node`
            return None
        if scores.sampling.greedy:
            return self._likely(scores)[node + 1].to(q.dtype)
        return token_rates(self.lenience * wide(q, scores.logits.device), scores, node)

    def ceiling(self, scores: Scores) -> Float[Tensor, "nodes+1 vocab"]:
        bound = scores.probs / self.lenience
        if scores.sampling.greedy:
            bound = wide(self._likely(scores))
        if not self._lenient_at(Draft.chain([0]), scores)[0]:
            bound[0] = scores.probs[0]  # the tokens before the other rows are unknown
        return bound

    def _lenient_at(self, draft: Draft, scores: Scores) -> list[bool]:
        """Returns for each token of a chain whether it is accepted leniently."""
        if self.within is None or self.lossless:
            return [True] * len(draft)
        opening, closing = self.within
        before = reversed(scores.context.tokens)
        last = next((token for token in before if token in self.within), closing)
        lenient: list[bool] = []
        for token in draft.tokens:
            lenient.append(last == opening)
            last = token if token in self.within else last
        return lenient

    def _likely(self, scores: Scores) -> Bool[Tensor, "nodes+1 vocab"]:
        if self.lossless:  # of several tokens that tie, the target writes one
            return scores.probs > 0
        # p(x) >= l max p, in logarithms: the normaliser cancels.
        floor = scores.logits.amax(-1, keepdim=True) + torch.tensor(self.lenience).log()
        return scores.logits >= floor


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
        return token_rates(self.b * wide(q, scores.logits.device), scores, node)

    def ceiling(self, scores: Scores) -> Float[Tensor, "nodes+1 vocab"]:
        if self.lossless:
            return scores.probs
        return scores.probs / self.b if self.b < 1 else torch.ones_like(scores.probs)
