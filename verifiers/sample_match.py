"""Lossless baselines: the naive rule, which needs no draft distribution, and rejection sampling."""

from collections.abc import Callable
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.devices import wide
from outrider.contract.draft import KINDS, ROOT, Draft, Verdict
from outrider.contract.sampling import Sampling
from outrider.contract.verifier import Decider, Decision, Probs, Scores, Verifier
from outrider.verifiers.prefix import leading, leading_there, verdict_on_device


@final
class SampleMatch(Verifier):
    """Draws each token from p, and goes on as long as the draft holds the drawn token.

    Every token is the target's own draw, so the text has the target's distribution for any draft,
    trees included (SpecInfer's naive sampling, 2305.09781). A token x of the draft is accepted with
    probability p(x). That is optimal for a deterministic draft; the token rule accepts more of a
    sampled one.
    """

    lossless = True
    takes: frozenset[str] = frozenset(KINDS)

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        return matching(draft, lambda node, _: chance.categorical(scores.after(node)))

    def accepts(self, q: Probs, scores: Scores, node: int) -> Probs:
        return scores.after(node)


def matching(draft: Draft, draw: Callable[[int, int], int]) -> Verdict:
    """Returns the verdict that follows a draft as long as it has the target's own tokens.

    draw: returns the target's token after a node, given the number of tokens accepted before it.
    """
    accepted: list[int] = []
    node = ROOT
    while True:
        token = draw(node, len(accepted))
        match = [child for child in draft.children(node) if draft.tokens[child] == token]
        if not match:
            return Verdict(tuple(accepted), token)
        node = match[0]
        accepted.append(node)


@final
class Rejection(Verifier):
    """Rejection sampling: accepts x with p(x) / (M q(x)), M = max p / q (2211.17192, Appendix A.2).

    An accepted token already has the distribution p, so a rejected one is replaced by a draw from p
    itself. Lossless, but never better than the token rule: it accepts a share 1 / M = min q / p of
    the tokens, which is 0 if q gives no probability to a token that p may draw.
    """

    lossless = True

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        if scores.logits.device.type != "cpu":
            return verdict_on_device(_decide, draft, scores, chance)
        rates = []
        for node, token in enumerate(draft.tokens):
            q = draft.distribution(node, scores.after(node - 1))
            rates.append(float(self.accepts(q, scores, node - 1)[token]))
        accepted = leading(chance.coins(torch.tensor(rates, dtype=torch.float64)))
        return Verdict(tuple(range(accepted)), chance.categorical(scores.after(accepted - 1)))

    def decider(self, sampling: Sampling) -> Decider:
        return _decide

    def accepts(self, q: Probs, scores: Scores, node: int) -> Probs:
        p = scores.after(node)
        ratio = (p / wide(q, p.device)).nan_to_num(0.0, posinf=float("inf"))
        return _relative(ratio)


def _relative(ratio: Float[Tensor, "*rows vocab"]) -> Float[Tensor, "*rows vocab"]:
    """Returns p / (M q); 0 everywhere if M is infinite."""
    most = ratio.amax(-1, keepdim=True)
    return torch.where(most < float("inf"), ratio / most, 0.0)


def _decide(tokens: Tensor, q: Tensor, scores: Scores, chance: Chance) -> Decision:
    """Decides as `Rejection.verify` does, from the whole draft at once."""
    p = wide(scores.probs)
    rates = _relative((p[:-1] / q[:-1]).nan_to_num(0.0, posinf=float("inf")))
    coins = chance.flips(rates.gather(1, tokens.clamp(min=0)[:, None])[:, 0])
    accepted = leading_there(coins)
    return accepted, chance.pick(p.index_select(0, accepted)[0])
