"""Cost model: drafts on while the next token is worth its cost, at this length and batch."""

from typing import Annotated, ClassVar, final

from outrider.base.bounds import Share, checked
from outrider.base.expectations import Above
from outrider.contract.draft import ROOT, Draft
from outrider.contract.policy import Policy, PolicyExample
from outrider.contract.round import Round
from outrider.policies.confidence import own_probability
from outrider.policies.goodput import PROBE, WINDOW, coefficients
from outrider.policies.nodes import NodeValues, tested_nodes
from outrider.policies.saved_state import SavedState

Costs = list[tuple[list[float], float]]
"""Of each call, what its time is proportional to, and its seconds."""


@final
class CostModel(Policy):
    """Weighs what a token is likely to gain against what it costs, as EAGLE-4 does with its trees.

    A call of the target takes base / texts + row (k + 1) + read length seconds for each of the
    `texts` scored together, with k draft tokens and `length` tokens before them; a draft token
    takes a + b length. The five coefficients are fitted to earlier rounds. The depth has the most
    expected tokens per expected second, which may be 0, as in `goodput` (2406.14066). Beyond that,
    a draft goes on only while the probability that its best branch and the next token are accepted
    is above the seconds of a token times that rate. A token's probability is what the drafter gave
    it, scaled so that the drafts before would have been right on average; for one that was written,
    it is the acceptance at its depth.

    So the lengths depend on the clock, but the distribution of the text does not.

    alpha: the acceptance at every depth to start from.
    weight: how many tested tokens that counts for.
    state: a file that keeps what was learned from run to run.

    What it has learned carries over from prompt to prompt.
    """

    examples: ClassVar[tuple[PolicyExample, ...]] = (
        # The first round also reads the prompt; then a full and a half draft tell what a row costs.
        # A call takes .1 and a draft token .01 s: 4 tokens pay, but not behind an unlikely one.
        PolicyExample(rounds=((4, 1), (4, 1), (2, 1), (2, 1)), gamma=4, probabilities=(0.9, 0.1)),
    )

    _calls: Costs
    _drafts: Costs
    _counts: list[list[int]]  # accepted and tested, by depth
    _hits: list[float]  # accepted tokens, and how many were expected

    @checked("policy")
    def __init__(
        self,
        alpha: Share = 0.7,
        weight: Annotated[float, Above(0)] = 10.0,
        state: str | None = None,
    ) -> None:
        hits = [weight, weight]
        self._memory = SavedState(self, state, _calls=[], _drafts=[], _counts=[], _hits=hits)
        self._alpha, self._weight = alpha, weight
        self._length, self._together, self._idle = 1, 1, 0
        self._first = True
        self._least = 0.0  # the acceptance from which on a token is worth its cost
        self._given = NodeValues(own_probability)

    def reset(self) -> None:
        self._first = True  # this round also reads the prompt, so its time means nothing

    def notice(self, length: int, texts: int) -> None:
        self._length, self._together = length, texts

    def depth(self, gamma: int) -> int:
        self._least = 0.0
        call, draft = coefficients(self._calls), coefficients(self._drafts)
        if call is None:
            return gamma if len(self._calls) % 2 == 0 else max(1, gamma // 2)
        row = call[1]
        base = call[0] / self._together + row + call[2] * self._length
        token = row + (0.0 if draft is None else draft[0] + draft[1] * self._length)
        reached, tokens = 1.0, 1.0
        best, rate = 0, 1 / max(base, 1e-9)
        for depth in range(1, gamma + 1):
            reached *= self._acceptance(depth)
            tokens += reached
            if tokens / max(base + token * depth, 1e-9) > rate:
                best, rate = depth, tokens / max(base + token * depth, 1e-9)
        self._least = token * rate
        self._idle = self._idle + 1 if best == 0 else 0
        return 1 if best == 0 and self._idle % PROBE == 0 else best

    def more(self, draft: Draft) -> bool:
        given, scale = self._given.of(draft), self._hits[0] / self._hits[1]
        likely, depths = {ROOT: 1.0}, {ROOT: 0}
        for node, parent in enumerate(draft.parents):
            depths[node] = depths[parent] + 1
            q = given[node]
            own = self._acceptance(depths[node]) if q is None else min(1.0, q * scale)
            likely[node] = likely[parent] * own
        leaves = likely.keys() - set(draft.parents)
        gain = max(likely[leaf] * self._acceptance(depths[leaf] + 1) for leaf in leaves)
        return gain >= self._least

    def observe(self, round: Round) -> None:
        if not self._first:
            call = [1 / self._together, round.drafted + 1.0, float(self._length)]
            self._calls = [*self._calls, (call, round.seconds["score"])][-WINDOW:]
            if round.drafted:
                draft = [float(round.drafted), float(round.drafted * self._length)]
                self._drafts = [*self._drafts, (draft, round.seconds["draft"])][-WINDOW:]
        self._first = False
        for depth in range(round.tested):
            self._counts += [[0, 0]] * (depth == len(self._counts))
            accepted, tested = self._counts[depth]
            self._counts[depth] = [accepted + (depth < round.accepted), tested + 1]
        for node, accepted in tested_nodes(round):
            if (q := self._given.values[node]) is not None:
                self._hits = [self._hits[0] + accepted, self._hits[1] + q]
        self._memory.save_after(round)

    def _acceptance(self, depth: int) -> float:
        """Returns the share of accepted tokens at a depth, from 1, among those tested there."""
        accepted, tested = self._counts[depth - 1] if depth <= len(self._counts) else (0, 0)
        return (accepted + self._alpha * self._weight) / (tested + self._weight)
