"""The naive lossless rule, a baseline that needs no draft distribution."""

from collections.abc import Callable
from typing import final

from outrider.contract.chance import Chance
from outrider.contract.draft import KINDS, ROOT, Draft, Verdict
from outrider.contract.verifier import Probs, Scores, Verifier


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
