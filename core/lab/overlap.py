"""Alpha by Leviathan's protocol: how far p and q overlap, at each prefix of the target's text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from outrider.chance import SampledChance
from outrider.context import Context, Tokens
from outrider.draft import Draft, Pen
from outrider.drafter import Drafter
from outrider.sampling import Sampling
from outrider.target import Target


@final
@dataclass(frozen=True, slots=True)
class Overlap:
    """Sums over the prefixes of some texts; add them up before making a rate.

    beta: sum of sum_x min(p(x), q(x)), 0 where there was no draft.
    prefixes: how many there were.
    covered: at how many of them the drafter proposed a token.
    """

    beta: float = 0.0
    prefixes: int = 0
    covered: int = 0

    def __add__(self, other: "Overlap") -> "Overlap":
        return Overlap(
            self.beta + other.beta,
            self.prefixes + other.prefixes,
            self.covered + other.covered,
        )

    @property
    def alpha(self) -> float | None:
        """Returns E[beta], the expected acceptance (2211.17192, Corollary 3.6)."""
        return self.beta / self.prefixes if self.prefixes else None

    @property
    def coverage(self) -> float | None:
        """Returns the share of prefixes with a draft."""
        return self.covered / self.prefixes if self.prefixes else None


@final
@dataclass(frozen=True, slots=True)
class Reference:
    """A text that the target wrote, with its logits at each prefix of it.

    ids: prompt and text. start: the length of the prompt. features: what a session kept.
    """

    ids: list[int]
    start: int
    logits: Float[Tensor, "text vocab"]
    features: dict[str, Tensor]


def reference(
    target: Target, prompt: Sequence[int], text: Sequence[int], needs: frozenset[str] = frozenset()
) -> Reference:
    """Returns the target's logits along its own `text`, of one pass."""
    session = target.open(prompt, needs)
    chain = Draft(tuple(text), tuple(range(-1, len(text) - 1)), (None,) * len(text))
    logits = session.score(chain)[: len(text)]
    return Reference([*prompt, *text], len(prompt), logits, session.features())


def overlap(text: Reference, drafter: Drafter, sampling: Sampling) -> Overlap:
    """Returns how far the drafter's laws overlap with the target's along `text`.

    The drafter, bound to the target before, proposes one token at each prefix.
    """
    total = Overlap()
    for row, logits in enumerate(text.logits):
        length = text.start + row
        # As in decoding: no state of the newest token, which the target has yet to read.
        features = {name: states[: length - 1] for name, states in text.features.items()}
        pen = Pen(
            sampling=sampling,
            chance=SampledChance.seeded(sampling.seed + row),
            vocab_size=logits.shape[-1],
            gamma=1,
        )
        drafter.propose_batch([(Context(Tokens(text.ids, length), None, features), pen)])
        draft = pen.finish()
        beta = 0.0
        if len(draft):
            p, q = sampling.law(logits), draft.laws[0]
            beta = float(p[draft.tokens[0]] if q is None else p.minimum(q.to(p.device)).sum())
        total += Overlap(beta, 1, len(draft))
    return total
