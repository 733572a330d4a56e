"""Confidence: drafts on while the drafter is sure enough of the token that it drew."""

from typing import ClassVar, final

from outrider.base.bounds import Share, checked
from outrider.contract.devices import wide
from outrider.contract.draft import Draft
from outrider.contract.policy import PolicyExample
from outrider.contract.round import Round
from outrider.policies.nodes import NodePolicy, tested_nodes
from outrider.policies.saved_state import SavedState

WINDOW = 1000
"""The number of latest tested tokens that the threshold is fitted to."""


@final
class Confidence(NodePolicy):
    """Stops after a token that had a probability below `threshold`.

    This is the rule of transformers' assisted generation. The token itself stays in the draft,
    since it was drawn. Its probability is the softmax of the drafter's own logits, whatever the
    temperature. A token that was written, not drawn, has none and never stops a draft. A tree goes
    on while it has a branch in which every token is likely enough.

    threshold: in [0, 1].
    refit: set the threshold anew after each round, to minimise the share of rejected tokens above
        it plus three times the share of accepted tokens below it. What it has learned carries over
        from prompt to prompt.
    state: a file that keeps what was learned from run to run.
    """

    examples: ClassVar[tuple[PolicyExample, ...]] = (
        PolicyExample(probabilities=(0.9, 0.5, 0.3, 0.9), rounds=((3, 1), (3, 3)), gamma=8),
        # Two siblings, the second unsure; a sure child of it; an unsure one of the first. Then no
        # branch is left in which every token is sure.
        PolicyExample(
            probabilities=(0.9, 0.2, 0.9, 0.2, 0.9),
            parents=(-1, -1, 1, 0, 2),
            rounds=((4, 0),),
            gamma=8,
        ),
        # Six tokens are known after the third round: .2 was always rejected, .5 never.
        PolicyExample(
            probabilities=(0.5, 0.2, 0.5),
            rounds=((3, 1), (3, 1), (3, 1), (2, 1)),
            gamma=3,
            settings={"threshold": 0.1, "refit": True},
        ),
    )

    threshold: float
    _seen: list[tuple[float, bool]]

    @checked("policy")
    def __init__(
        self, threshold: Share = 0.4, refit: bool = False, state: str | None = None
    ) -> None:
        super().__init__(own_probability)
        self._memory = SavedState(self, state, threshold=threshold, _seen=[])
        self._refit = refit

    @property
    def learns(self) -> bool:
        return self._refit

    def is_good(self, value: float | None) -> bool:
        return value is None or value >= self.threshold

    def observe(self, round: Round) -> None:
        if not self._refit:
            return
        for node, accepted in tested_nodes(round):
            probability = self._nodes.values[node]
            if probability is not None:
                self._seen.append((probability, accepted))
        self._seen = self._seen[-WINDOW:]
        self.threshold = fitted(self._seen, self.threshold)
        self._memory.save_after(round)


def own_probability(draft: Draft, node: int) -> float | None:
    """Returns the probability that the drafter gave a node's token; None if it was written."""
    logits = draft.logits[node]
    return None if logits is None else float(wide(logits).softmax(-1)[draft.tokens[node]])


def fitted(seen: list[tuple[float, bool]], before: float) -> float:
    """Returns the threshold that minimises the false positive rate + 3 * the false negative rate.

    Returns `before` if at most five tokens are known, or all were accepted, or all rejected.

    seen: for each tested token, the drafter's probability and whether it was accepted.
    """
    accepted = [probability for probability, was_accepted in seen if was_accepted]
    rejected = [probability for probability, was_accepted in seen if not was_accepted]
    if len(seen) <= 5 or not accepted or not rejected:
        return before

    def cost(threshold: float) -> float:
        false_positives = sum(probability >= threshold for probability in rejected) / len(rejected)
        false_negatives = sum(probability < threshold for probability in accepted) / len(accepted)
        return false_positives + 3 * false_negatives

    return min(sorted({probability for probability, _ in seen}, reverse=True), key=cost)
