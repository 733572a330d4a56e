"""Confidence: drafts on while the drafter was sure enough of the token that it wrote."""

from typing import final

from outrider.contract.draft import Draft
from outrider.contract.policy import Policy
from outrider.contract.round import Round
from outrider.errors import require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.policies.memory import Memory

KEEP = 1000
"""Tokens that the threshold is fitted on, the latest ones."""


@final
class Confidence(Policy):
    """Stops behind a token that the drafter gave less than `threshold` (transformers' rule).

    The token itself stays in the draft, since it was drawn. Its probability is that of the drafter's
    logits as they are, at whatever temperature; a token that was written has none, and never stops
    a draft.

    threshold: in [0, 1].
    refit: after each round set the threshold anew, to where the share of rejected tokens above it
        and three times that of accepted ones below it add up to least. State that is learned goes
        on from prompt to prompt.

    state: a file that keeps what was learned, from run to run.

    Raises `ConfigError` for a threshold outside [0, 1].
    """

    def __init__(
        self, threshold: float = 0.4, refit: bool = False, state: str | None = None
    ) -> None:
        within = 0 <= threshold <= 1
        require(within, "policy.threshold", threshold, "a number in [0, 1]")
        self.threshold = threshold
        self._refit = refit
        self._sure: list[float | None] = []
        self._seen: list[tuple[float, bool]] = []
        self._memory = Memory(self, state, "threshold", "_seen")

    def depth(self, gamma: int) -> int:
        self._sure = []
        return gamma

    def more(self, draft: Draft) -> bool:
        logits = draft.logits[-1]
        sure = None if logits is None else float(logits.double().softmax(-1)[draft.tokens[-1]])
        self._sure.append(sure)
        return sure is None or sure >= self.threshold

    def observe(self, round: Round) -> None:
        if not self._refit:
            return
        for place, sure in enumerate(self._sure[: round.tested]):
            if sure is not None:
                self._seen.append((sure, place < round.accepted))
        self._seen = self._seen[-KEEP:]
        self.threshold = fitted(self._seen, self.threshold)
        if round.stop is not None:
            self._memory.keep()


def fitted(seen: list[tuple[float, bool]], before: float) -> float:
    """Returns the threshold of least fpr + 3 fnr; `before` for too few or only one kind.

    seen: of each tested token the drafter's probability, and whether it was accepted.
    """
    right = sorted(sure for sure, accepted in seen if accepted)
    wrong = sorted(sure for sure, accepted in seen if not accepted)
    if len(seen) <= 5 or not right or not wrong:
        return before

    def cost(threshold: float) -> float:
        passed = sum(sure >= threshold for sure in wrong) / len(wrong)
        missed = sum(sure < threshold for sure in right) / len(right)
        return passed + 3 * missed

    return min(sorted({sure for sure, _ in seen}, reverse=True), key=cost)


@hookimpl
def register_policies(register: Register) -> None:
    register("confidence", Confidence)
