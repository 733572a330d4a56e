"""The draft under construction. Several pens may write to it in turn."""

import math
import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import DrafterError, shown
from outrider.contract.chance import Chance, Noise
from outrider.contract.constraint import Guide
from outrider.contract.draft import ROOT, Draft
from outrider.contract.sampling import Sampling

Drawn = tuple[int, Tensor | None]
"""A token, and the distribution that it was drawn from; None if it was written."""

NEAR = 1e-3
"""How far from 1 the sum of probabilities may be by rounding."""
PROBABILITIES = (
    "a drafter gave logits that are between 0 and 1 and sum to 1: expected logits, not"
    " probabilities; of these, probs.log() are the logits"
)


@final
@dataclass(eq=False)
class Sheet:
    """What has been written of one draft, and the settings that every token is drawn with.

    gamma: the greatest depth of the draft (Leviathan's γ).
    budget: the greatest number of nodes. Defaults to gamma, which is enough for a chain.
    more: called with the draft after each submission; returns whether to keep drafting.
    noise: what tokens are drawn with, if the acceptance rule is coupled. If None, they are drawn
        independently.
    guide: the constraint that drafts keep to: it changes logits before a token is drawn.

    tokens: the id at each node.
    asked: the id and the parent of each probe, a token to be scored beside the draft.
    stopped: whether the policy has ended the draft.
    guesses: a faster drafter's guesses of the next tokens; None without any.
    handed_in: whether the draft has been taken for scoring; nothing can be written any more.
    """

    sampling: Sampling
    chance: Chance
    vocab_size: int
    gamma: int
    _: KW_ONLY
    budget: int | None = None
    more: Callable[[Draft], bool] | None = None
    noise: Noise | None = None
    guide: Guide | None = None

    tokens: list[int] = field(default_factory=list, init=False)
    asked: list[tuple[int, int]] = field(default_factory=list, init=False)
    stopped: bool = field(default=False, init=False)
    guesses: "Guesses | None" = field(default=None, init=False)
    handed_in: bool = field(default=False, init=False)
    _parents: list[int] = field(default_factory=list, init=False)
    _depths: list[int] = field(default_factory=list, init=False)
    _calls: list[int] = field(default_factory=list, init=False)
    _probs: list[Tensor | None] = field(default_factory=list, init=False)
    _logits: list[Tensor | None] = field(default_factory=list, init=False)
    _latents: int = field(default=0, init=False)

    @property
    def last(self) -> int:
        """Returns the last node; -1 if there is none."""
        return len(self.tokens) - 1

    @property
    def looks_at_tokens(self) -> bool:
        """Returns whether the value of each token is needed before the next one is drawn."""
        return self.more is not None or self.steers_draws

    @property
    def steers_draws(self) -> bool:
        """Returns whether the value of a token may change how the next one is drawn."""
        return any(part is not None for part in (self.guide, self.noise, self.guesses))

    def depth(self, node: int) -> int:
        """Returns the number of tokens from the context to `node`; 0 for the context itself."""
        return 0 if node == ROOT else self._depths[node]

    def guide_after(self, node: int) -> Guide | None:
        """Returns the guide to what may follow `node`; None if no constraint steers the draft."""
        return None if self.guide is None else self.guide.after(self.path(node))

    def path(self, node: int) -> list[int]:
        """Returns the tokens from the context to `node`."""
        tokens: list[int] = []
        while node != ROOT:
            tokens.append(self.tokens[node])
            node = self._parents[node]
        return tokens[::-1]

    def checked(self, logits: Float[Tensor, "vocab"], node: int) -> Float[Tensor, "vocab"]:
        """Returns a drafter's logits for what follows `node`, under the constraint if there is one.

        Raises `DrafterError` if they do not describe a distribution over the vocabulary.
        """
        described(logits, self.vocab_size)
        check_numbers(float(logits.max()), lambda: (float(logits.min()), float(logits.sum())))
        guide = self.guide_after(node)
        return logits if guide is None else guide.steered(logits)

    def draw(self, probs: Float[Tensor, "vocab"], node: int) -> int:
        """Returns a token that follows `node`, drawn from `probs`."""
        if self.noise is None:
            return self.chance.categorical(probs)
        return self.chance.race(probs, self.noise.key(self.path(node)))

    def latent(self, probs: Float[Tensor, "n"]) -> int:
        """Returns a number drawn from `probs`, as `Pen.latent` does."""
        if not isinstance(probs, Tensor) or probs.ndim != 1 or not probs.amin(-1) >= 0:
            raise DrafterError("gave a latent no vector of probabilities")
        if self.sampling.greedy:
            return int(probs.argmax())
        self._latents += 1
        chance = self.chance.free
        if self.noise is not None:  # independent of the noise that the rule draws with
            chance = chance.named(f"latent/{len(self.noise.text)}/{self._latents}")
        try:
            return chance.categorical(probs)
        except ValueError as error:
            raise DrafterError(f"gave a latent with {error}") from None

    def submit(self, drawn: Sequence[Drawn], parent: int, logits: Tensor | None) -> None:
        """Adds the children that one call of a pen wrote, and asks the policy whether to go on.

        Raises `DrafterError` once the draft is handed in, which a thread may find.
        """
        if self.handed_in:
            raise DrafterError("wrote after propose() had returned: the draft is handed in")
        self.settle()
        self.guesses = None
        first = len(self.tokens)
        for token, probs in drawn:
            self.tokens.append(token)
            self._parents.append(parent)
            self._depths.append(1 + self.depth(parent))
            self._probs.append(probs)
            self._logits.append(logits)
            self._calls.append(first)
        if self.more is not None:
            self.stopped = not self.more(self._draft())

    def settle(self) -> None:
        """Raises `DrafterError` if the next token has a guess, which has to be redrawn first."""
        if self.guesses is not None:
            self.guesses.sheet.settle()
            if self.guesses.index(self) is not None and self.guesses.has_room():
                token = len(self.tokens) + 1
                raise DrafterError(f"passed over the guess of token {token}: use redraw")

    def finish(self) -> Draft:
        """Returns the draft; raises `DrafterError` if the next token's guess was not redrawn."""
        self.settle()
        self.handed_in = True
        return self._draft()

    def _draft(self) -> Draft:
        return Draft(
            tuple(self.tokens),
            tuple(self._parents),
            tuple(self._probs),
            tuple(self._logits),
            tuple(self._calls),
        )

    def probes(self) -> Draft:
        """Returns the probes as a tree of written tokens, as `Draft.joined` takes it."""
        tokens, parents = zip(*self.asked, strict=True) if self.asked else ((), ())
        return Draft(tokens, parents, (None,) * len(tokens))


@final
@dataclass(frozen=True, slots=True)
class Guesses:
    """Tokens that a faster drafter expects to come next; see `outrider.contract.composition`.

    sheet: what they are written on.
    first: how many tokens were written before the first of those that they guess.
    has_room: returns whether the pen that asked for them may write another token.
    """

    sheet: Sheet
    first: int
    has_room: Callable[[], bool]

    def index(self, sheet: Sheet) -> int | None:
        """Returns which of them guesses the next token of `sheet`; None if none does."""
        index = len(sheet.tokens) - self.first
        return index if index < len(self.sheet.tokens) else None


def described(logits: Float[Tensor, "vocab"], vocab_size: int) -> Float[Tensor, "vocab"]:
    """Returns a drafter's logits; raises `DrafterError` unless they have the form of logits."""
    if not isinstance(logits, Tensor):
        raise DrafterError(f"gave logits as {type(logits).__name__}: expected a tensor")
    if logits.is_complex() or logits.layout != torch.strided:
        raise DrafterError("gave logits that are complex or sparse: expected numbers")
    if logits.shape != (vocab_size,):
        raise DrafterError(f"gave logits of shape {tuple(logits.shape)}: expected ({vocab_size},)")
    return logits


def check_numbers(highest: float, rest: Callable[[], Sequence[float]]) -> None:
    """Raises `DrafterError` for logits of a row that are no numbers; warns of probabilities.

    highest: the largest of them. rest: returns the lowest, and the sum of all.
    """
    if not math.isfinite(highest):
        raise DrafterError("gave logits with NaN, infinity or no finite entry")
    if 0 < highest <= 1:
        lowest, total = rest()
        if lowest >= 0 and abs(total - 1) < NEAR:
            warnings.warn(PROBABILITIES, stacklevel=3)


def checked_token(token: int, vocab_size: int) -> int:
    """Returns an id; raises `DrafterError` if it is none, or not in the vocabulary."""
    index = -1 if isinstance(token, Tensor) and token.ndim > 0 else _whole(token)
    if not 0 <= index < vocab_size:
        raise DrafterError(f"wrote id {shown(token)}: the vocabulary has {vocab_size} tokens")
    return index


def checked_width(width: object) -> int:
    """Returns a number of siblings; raises `DrafterError` if it is none, or below 1."""
    number = _whole(width)
    if number < 1:
        raise DrafterError(f"asked for {shown(width)} siblings: expected 1 or more")
    return number


def _whole(value: Any) -> int:
    """Returns a value as a whole number; -1 if it is none."""
    try:
        return -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return -1
