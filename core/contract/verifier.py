"""Verifier: the role that accepts a prefix of a draft so that the output distribution is known."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import final

from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.draft import Draft
from outrider.contract.sampling import Sampling


@final
@dataclass(frozen=True)
class Scores:
    """What the target says of a draft.

    logits: row 0 scores what follows the context, row i + 1 what follows node i.
    sampling: what makes distributions of them.
    """

    logits: Float[Tensor, "nodes+1 vocab"]
    sampling: Sampling

    @cached_property
    def probs(self) -> Float[Tensor, "nodes+1 vocab"]:
        """Returns the target's distributions p under the run's sampling, row by row as `logits`."""
        return self.sampling.probs(self.logits)

    def after(self, node: int) -> Float[Tensor, "vocab"]:
        """Returns the distribution p of the token after `node`; -1 is the context."""
        return self.probs[node + 1]


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verifier decided.

    accepted: the nodes accepted, a path from the root.
    next_token: the token that the target adds: a recovered token after a rejection,
        a bonus token where the path ended at a leaf.
    """

    accepted: tuple[int, ...]
    next_token: int


class Verifier(ABC):
    """Accepts a path of the draft and adds one token.

    takes: the kinds of drafts that the rule is right for, of `outrider.contract.draft.KINDS`.
    """

    takes: frozenset[str] = frozenset({"chain"})

    @property
    @abstractmethod
    def lossless(self) -> bool:
        """Returns whether the output distribution is exactly the target's."""

    @abstractmethod
    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        """Returns the accepted path and the token after it."""

    def accepts(
        self, q: Float[Tensor, "vocab"], scores: Scores, node: int
    ) -> Float[Tensor, "vocab"] | None:
        """Returns the probability that each token, drawn from q to follow `node`, is accepted.

        None where that depends on more than the one place, as under block verification.
        """
        return None

    def ceiling(self, scores: Scores) -> Float[Tensor, "nodes+1 vocab"]:
        """Returns what no token's output probability exceeds, row by row as `scores.logits`.

        A lossless rule's ceiling is the target's distribution; a lossy rule states its own, and the
        conformance kit holds it to that.
        """
        return scores.probs
