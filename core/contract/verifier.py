"""Verifier: an acceptance rule, which keeps part of a draft and adds one token."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Self, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.base.bounds import NonNegative, checked
from outrider.base.errors import PluginError
from outrider.base.expectations import OneOf
from outrider.contract.chance import Chance, Noise
from outrider.contract.context import Context, Features
from outrider.contract.draft import Draft, Verdict
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target

Probs = Float[Tensor, "vocab"]
"""A probability for each token: a distribution, or how likely each is to be accepted."""

Ratios = Float[Tensor, "drafts depths"]
"""A number for each token of several chains."""


@final
@dataclass(frozen=True)
class Scores:
    """The target's scores of a draft.

    logits: row 0 is for the token after the context, row i + 1 for the token after node i.
    sampling: turns logits into distributions.
    noise: what a coupled rule draws with after the context.
    shown: the context if the rule is lossy; None if it is lossless.
    features: what the rule lists in `needs`, with the rows of `logits`: row 0 is of the newest
        token of the context, row i + 1 of node i.
    """

    logits: Float[Tensor, "nodes+1 vocab"]
    sampling: Sampling
    noise: Noise = field(default_factory=partial(Noise, ()))
    shown: Context | None = None
    features: Features = field(default_factory=dict)

    @cached_property
    def probs(self) -> Float[Tensor, "nodes+1 vocab"]:
        """Returns the target's distributions p under the run's sampling, one for each row."""
        return self.sampling.probs(self.logits)

    @property
    def context(self) -> Context:
        """Returns the text before the draft, for `verify` and `ceiling` of a lossy rule alone.

        Raises `PluginError` if the rule is lossless: proved so for the draft and the scores alone.
        """
        if self.shown is None:
            raise PluginError(
                "scores.context: only verify and ceiling of a rule with lossless=False may read it"
            )
        return self.shown

    @property
    def start(self) -> int:
        """Returns the position in the text of the token after the context."""
        return len(self.noise.text)

    def race(self, chance: Chance, draft: Draft, node: int) -> int:
        """Returns the token after `node` by the noise that the pen draws with there."""
        path = [draft.tokens[above] for above in draft.path(node)]
        return chance.race(self.after(node), self.noise.key(path))

    def after(self, node: int) -> Probs:
        """Returns the distribution p of the token after `node`; -1 stands for the context."""
        return self.probs[node + 1]


Decision = tuple[Int[Tensor, "1"], Int[Tensor, "1"]]
"""How many tokens of a chain are accepted, and the token after them; -1 if none could be drawn."""

Decider = Callable[[Int[Tensor, "gamma"], Float[Tensor, "gamma+1 vocab"], Scores, Chance], Decision]
"""Decides on a chain where it is, and waits for nothing.

It is given the tokens, -1 for padding after the last; what each was drawn from, zeros for padding
and in a last row; and the scores.
"""


class Verifier(ABC):
    """Accepts a path of the draft and adds one token.

    takes: the kinds of drafts that the rule can verify; see `outrider.contract.draft.KINDS`.
    budget: how far a lossy rule may take the distribution of each token from the target's. None,
        the default, promises nothing; the conformance kit holds a rule to what it promises.
    coupled: whether the rule draws with `Scores.race`, from noise that it shares with the pen.
    window: how many of the last tokens name that noise; None for the position. See `Noise`.
    needs: the features of the target that it reads in `scores.features`, by the names of
        `Drafter.needs`; they are functions of the text, so a proof stands.
    examples: what it accepts of some drafts. The conformance kit runs them.
    """

    takes: frozenset[str] = frozenset({"chain"})
    budget: "Budget | None" = None
    coupled: bool = False
    window: int | None = None
    needs: frozenset[str] = frozenset()
    examples: ClassVar[Sequence["VerifierExample"]] = ()

    @property
    @abstractmethod
    def lossless(self) -> bool:
        """Returns whether the distribution of the text is exactly the target's."""

    def bind(self, target: Target) -> None:
        """Prepares the rule for a target, before the first text. May be called again.

        Raises `ConfigError` if rule and target don't fit.
        """

    def open(self) -> Self:
        """Returns the rule of one text; by default the rule itself, which has no state.

        A rule with state of one text, such as what is left of a budget, returns `copy.copy(self)`
        whose state starts over. `verify` may change it. A lossless rule is exact in each state.
        """
        return self

    @abstractmethod
    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        """Returns the accepted path and the token after it."""

    def decider(self, sampling: Sampling) -> Decider | None:
        """Returns what decides on chains as `verify` does; None, the default, if nothing can.

        It depends on what it is given alone, and draws by one call of `flips`, for each token, and
        one of `pick`. So an engine may record it with the target's pass, for several texts at once
        (`torch.vmap`). Chains are padded: coins of padding are false. The same function is one
        recording.
        """
        return None

    def accepts(self, q: Probs, scores: Scores, node: int) -> Probs | None:
        """Returns for each token the probability that it is accepted, if drawn from q after `node`.

        None if that depends on more than one position, as in block verification.

        q: on any device; the result is on that of `scores`.
        """
        return None

    def accepts_along(self, ratios: Ratios) -> Ratios | None:
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


DIVERGENCES = {
    "tv": "total variation, half the sum of |h(x) - p(x)|, at most 1",
    "kl": "Kullback-Leibler divergence, the sum of h(x) log(h(x) / p(x)), in nats",
}
"""The divergences of a distribution h from the target's p that a budget can be stated in."""


@final
@checked("verifier")
@dataclass(frozen=True, slots=True)
class Budget:
    """The most that the distribution of a token, given the text before it, may differ from p.

    limit: the most divergence for each token.
    divergence: a key of `DIVERGENCES`.

    Raises `ConfigError` for an unknown divergence, or a limit that is not a number of at least 0.
    """

    limit: NonNegative
    divergence: Annotated[str, OneOf(DIVERGENCES)] = "tv"

    def spent(self, h: Probs, p: Probs) -> float:
        """Returns the divergence of h from p; infinite for "kl" where h > 0 and p = 0."""
        if self.divergence == "tv":
            return float((h - p).abs().sum() / 2)
        return max(0.0, float((torch.xlogy(h, h) - torch.xlogy(h, p)).sum()))

    def ceiling(self, p: Float[Tensor, "*rows vocab"]) -> Float[Tensor, "*rows vocab"]:
        """Returns the highest probability that each token may have.

        For "kl" it follows from Pinsker's inequality: total variation is at most sqrt(KL / 2).
        """
        room = self.limit if self.divergence == "tv" else (self.limit / 2) ** 0.5
        return (p + room).clamp(max=1)


@final
@dataclass(frozen=True, kw_only=True)
class VerifierExample:
    """What an acceptance rule makes of a draft, over all outcomes of all decisions.

    p, q: the distributions of target and drafter after every text. A q that is all on one token
        stands for a token that was written.
    accepted: how many tokens of the draft are accepted on average: with gamma=1, the probability
        that one is. Defaults to not said.
    text: the distribution of the next token of the text. Defaults to p, as with a lossless rule.
    gamma: the depth of the draft.
    siblings: how many tokens are drawn from q at each node.
    kind: how; one of `outrider.contract.draft.KINDS`.
    temperature: of the run.
    settings: the arguments of the rule.
    """

    p: Sequence[float]
    q: Sequence[float]
    accepted: float | None = None
    text: Sequence[float] | None = None
    gamma: int = 1
    siblings: int = 1
    kind: str = "iid"
    temperature: float = 1.0
    settings: Mapping[str, Any] = field(default_factory=dict)
