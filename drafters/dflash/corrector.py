"""Corrector: makes the token at each place of a block depend on those before it in the block."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Annotated, ClassVar, Self, final

from jaxtyping import Float, Int
from torch import Tensor, nn

from outrider.base.bounds import Count, checked
from outrider.base.errors import ConfigError, nearest
from outrider.base.expectations import AtLeast
from outrider.drafters.parts.networks.vocabulary import Vocabulary

Before = Int[Tensor, "blocks before"]
"""The last token of the text, and those at the first places of a block."""

Places = Float[Tensor, "blocks places known"]
"""The logits at places of a block."""

_HERE = "outrider.drafters.dflash"

CORRECTORS: Mapping[str, str] = {
    "markov": f"{_HERE}.bias_correctors:Markov",
    "gated": f"{_HERE}.bias_correctors:Gated",
    "rnn": f"{_HERE}.bias_correctors:MarkovRNN",
    "domino": f"{_HERE}.bias_correctors:Domino",
    "selector": f"{_HERE}.candidate_correctors:Selector",
    "xpress": f"{_HERE}.bias_correctors:Mixer",
    "lilicorr": f"{_HERE}.candidate_correctors:Lattice",
}
"""The class of each corrector, by name. A config may also name a class of one's own like this."""


@final
@dataclass(frozen=True, slots=True)
class Backbone:
    """What a corrector is built for.

    width: of the states at the places.
    places: how many tokens a pass drafts.
    rows: the tokens of a block: one more, if the last token of the text predicts nothing.
    vocabulary: the tokens that it drafts.
    embedding: the target's, [vocab, width].
    eps: of its norms.
    """

    width: int
    places: int
    rows: int
    vocabulary: Vocabulary
    embedding: Tensor
    eps: float = 1e-6


@final
@dataclass(frozen=True, slots=True)
class Block:
    """What a backbone says of the next tokens before any of them is drawn.

    states: at the places that predict, in the order of their tokens.
    logits: of the token at each place. They know nothing of the tokens at other places.
    text: what the backbone has made of the target's states at the last token that both have read.
    start: the state at the last token of the text, if it predicts nothing; else of no width.
    earlier: likewise, the token before the last one, or the last one if it is the first.
    """

    states: Float[Tensor, "blocks places width"]
    logits: Places
    text: Float[Tensor, "blocks width"]
    start: Float[Tensor, "blocks start width"]
    earlier: Int[Tensor, "blocks start"]


Correction = Callable[[Before, int], Places]
"""Maps tokens to the logits of the places behind them, from a given place on.

The tokens are the last one of the text and those at the first places, one for each place whose
logits are returned or left out. If there is one block, they may be several paths in it.
"""


class Corrector(nn.Module, ABC):
    """Corrects the logits of a block, given the tokens that were drawn.

    A token's distribution may depend on all of the block's states and on the tokens before it,
    never on later ones, so it is known exactly when the token is drawn. It may be -inf for all but
    a few candidates.

    base: the weight of the loss of the logits before correction, beside that of those after it.
    """

    base: ClassVar[float] = 0.0

    @abstractmethod
    def forward(self, block: Block) -> Correction:
        """Returns the correction of a block; what depends on no token is computed here, once."""


@final
@checked("corrector")
@dataclass(frozen=True, slots=True)
class CorrectorConfig:
    """Which corrector a network has.

    kind: a name in CORRECTORS, or "module:class".
    rank: the width of its inner layers.
    candidates: how many tokens it chooses from at each place, if it is one that does.
    memory: the width of Domino's GRU. Defaults to `rank`.
    first: the first place that Domino corrects.
    layers, heads: of LiLiCorr's transformer; one head if they do not divide the width.
    ratio: the width of its feed-forward layers, in multiples of `rank`.
    factors: the width of the vectors whose cosines are its logits. Defaults to `rank`.
    scale: what the cosines are multiplied by.
    """

    kind: str
    rank: Count = 256
    candidates: Count = 16
    memory: Count | None = None
    first: Annotated[int, AtLeast(0)] = 0
    layers: Count = 2
    heads: Count = 4
    ratio: float = 2.0
    factors: Count | None = None
    scale: float = 20.0

    def __post_init__(self) -> None:
        if self.kind not in CORRECTORS and ":" not in self.kind:
            raise ConfigError(f"corrector={self.kind!r}: {nearest(self.kind, list(CORRECTORS))}")

    @classmethod
    def of(cls, kind: str | None, rank: int = 256, candidates: int = 16) -> Self | None:
        """Returns the config of a kind of corrector; None stands for none."""
        return None if kind is None else cls(kind, rank, candidates)

    def make(self, backbone: Backbone) -> Corrector:
        """Returns a new corrector; raises `ConfigError` if `kind` can't be imported."""
        place = CORRECTORS.get(self.kind, self.kind)
        try:
            factory: Callable[..., Corrector] = resolve_name(place)
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigError(f"corrector={self.kind!r}: expected a class ({error})") from error
        return factory(backbone, self)
