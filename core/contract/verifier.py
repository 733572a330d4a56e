"""Verifier: an acceptance rule, which keeps part of a draft and adds one token."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import PluginError
from outrider.contract.budget import Budget
from outrider.contract.chance import Chance
from outrider.contract.context import Context
from outrider.contract.draft import Draft
from outrider.contract.examples import VerifierExample
from outrider.contract.sampling import Sampling


@final
@dataclass(frozen=True)
class Scores:
    """The target's scores of a draft.

    logits: row 0 is for the token after the context, row i + 1 for the token after node i.
    sampling: turns logits into distributions.
    start: the position in the text of the token after the context, for coupled rules.
    shown: the context if the rule is lossy; None if it is lossless.
    """

    logits: Float[Tensor, "nodes+1 vocab"]
    sampling: Sampling
    start: int = 0
    shown: Context | None = None

    @cached_property
    def probs(self) -> Float[Tensor, "nodes+1 vocab"]:
        """Returns the target's distributions p under the run's sampling, one for each row."""
        return self.sampling.probs(self.logits)

    @property
    def context(self) -> Context:
        """Returns the text before the draft, for `verify` and `ceiling` of a lossy rule alone.

        Raises:
            PluginError: the rule says that it is lossless. It was proved so as a function of the
                draft and the scores alone.
        """
        if self.shown is None:
            raise PluginError(
                "scores.context: only verify and ceiling of a rule with lossless=False may read it"
            )
        return self.shown

    def after(self, node: int) -> Float[Tensor, "vocab"]:
        """Returns the distribution p of the token after `node`; -1 stands for the context."""
        return self.probs[node + 1]


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision of an acceptance rule.

    accepted: the accepted nodes, a path from the root.
    next_token: the token that follows them: a recovered token after a rejection, a bonus token
        if the path ends at a leaf.
    """

    accepted: tuple[int, ...]
    next_token: int


class Verifier(ABC):
    """Accepts a path of the draft and adds one token.

    takes: the kinds of drafts that the rule can verify; see `outrider.contract.draft.KINDS`.
    budget: how far a lossy rule may take the distribution of each token from the target's. None,
        the default, promises nothing; the conformance kit holds a rule to what it promises.
    coupled: whether the rule draws with `Chance.race`, from noise that it shares with the pen.
    examples: what it accepts of some drafts. The conformance kit plays them.
    """

    takes: frozenset[str] = frozenset({"chain"})
    budget: Budget | None = None
    coupled: bool = False
    examples: ClassVar[Sequence[VerifierExample]] = ()

    @property
    @abstractmethod
    def lossless(self) -> bool:
        """Returns whether the distribution of the text is exactly the target's."""

    @abstractmethod
    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        """Returns the accepted path and the token after it."""

    def accepts(
        self, q: Float[Tensor, "vocab"], scores: Scores, node: int
    ) -> Float[Tensor, "vocab"] | None:
        """Returns for each token the probability that it is accepted, if drawn from q after `node`.

        None if that depends on more than one position, as in block verification.

        q: on any device; the result is on that of `scores`.
        """
        return None

    def accepts_along(
        self, ratios: Float[Tensor, "drafts depths"]
    ) -> Float[Tensor, "drafts depths"] | None:
        """Returns the probability that each token of a draft is accepted, if those before it were.

        For lossless rules that judge several tokens together, and for chains of tokens that the
        target itself wrote. None, the default, if the ratios alone don't decide it.

        ratios: q(x) / p(x) for each token x of each draft.
        """
        return None

    def ceiling(self, scores: Scores) -> Float[Tensor, "nodes+1 vocab"]:
        """Returns an upper bound on the output probability of each token, row by row of `scores`.

        For a lossless rule this is the target's distribution. A lossy rule states its own bound,
        and the conformance kit holds it to that.
        """
        return scores.probs
