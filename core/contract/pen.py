"""The pen, the only way to write a draft: a token and its distribution are recorded together."""

from collections.abc import Callable
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.draft import ROOT, Draft
from outrider.contract.sampling import Sampling
from outrider.errors import DrafterError


@final
class Pen:
    """Writes one draft: draws tokens with the run's sampling and chance and records their distributions.

    gamma: the depth that the draft may reach (Leviathan's γ).
    budget: the number of nodes it may have; a chain's is gamma.
    more: the policy's answer, from the draft as submitted, to whether to go on.
    """

    def __init__(
        self,
        *,
        sampling: Sampling,
        chance: Chance,
        vocab_size: int,
        gamma: int,
        budget: int | None = None,
        more: Callable[[Draft], bool] | None = None,
    ) -> None:
        self.gamma = gamma
        self.budget = gamma if budget is None else budget
        self.vocab_size = vocab_size
        self._sampling = sampling
        self._chance = chance
        self._more = more
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._depths: list[int] = []
        self._laws: list[Tensor | None] = []
        self._logits: list[Tensor | None] = []
        self._stopped = False
        self._asked: list[tuple[int, int]] = []

    @property
    def open(self) -> bool:
        """Returns whether a token may follow the last one.

        The answer depends only on what was submitted. Asking before a token is drawn and
        leaving off is the one way to stop; a token once drawn is part of the draft, since
        dropping it by its own value would bias the text.
        """
        depth = self._depths[-1] if self._depths else 0
        return not self._stopped and len(self._tokens) < self.budget and depth < self.gamma

    @property
    def room(self) -> int:
        """Returns how many nodes may still be written; 0 where the policy said stop."""
        return 0 if self._stopped else self.budget - len(self._tokens)

    @property
    def last(self) -> int:
        """Returns the node written last, -1 before the first."""
        return len(self._tokens) - 1

    def token(self, node: int) -> int:
        """Returns the id written at `node`."""
        return self._tokens[node]

    def draw(self, logits: Float[Tensor, "vocab"], after: int | None = None) -> int:
        """Draws a token from the distribution of `logits` under the run's sampling, and returns its id.

        after: the node it continues; the last one unless told.

        Raises:
            DrafterError: the pen is closed, or `logits` is no score of a vocabulary.
        """
        return self._tokens[self.branch(logits, 1, after=after)[0]]

    def redraw(self, logits: Float[Tensor, "vocab"], guess: Draft, node: int) -> int:
        """Draws a token from the distribution of `logits`, which is that of `guess` as often as may be.

        For a drafter that is sped up by a faster one: the guess is kept with probability
        min(1, p(x) / q(x)), and otherwise replaced by a draw from norm(max(0, p - q)), so that
        what is drawn, and recorded, has the distribution p whatever was guessed (2211.17192, Algorithm 1).

        guess, node: a draft that a pen from `faster` has written, and a node of it.

        Raises:
            DrafterError: as `draw` does.
        """
        if self._sampling.greedy:
            return self.draw(logits)
        probs, token = self._distribution(logits), guess.tokens[node]
        q = guess.distribution(node, probs)
        if not self._chance.coins((probs[token] / q[token])[None])[0]:
            rest = (probs - q).clamp(min=0)
            token = self._chance.categorical(rest if rest.any() else probs)
        return self._tokens[self._submit([(token, probs)], None, logits)[0]]

    def faster(self, gamma: int) -> "Pen":
        """Returns a pen for a faster drafter's guesses, with the same sampling and chance."""
        return Pen(
            sampling=self._sampling, chance=self._chance, vocab_size=self.vocab_size, gamma=gamma
        )

    def write(self, token: int, after: int | None = None) -> int:
        """Writes a token that was not drawn (a copy, an argmax): its distribution is a point mass.

        Returns:
            The id written.

        Raises:
            DrafterError: the pen is closed, or `token` is no id of the vocabulary.
        """
        self._submit([(self._known(token), None)], after)
        return int(token)

    def ask(self, token: int, after: int | None = None) -> int:
        """Has the target score `token` in the same pass without its being part of the draft.

        What follows comes to the drafter's `answer`. Questions form a tree of their own.

        after: the question that it continues, -1 for the context; the last one unless told.

        Returns:
            The number of the question.

        Raises:
            DrafterError: `token` is no id of the vocabulary, or there is no such question.
        """
        parent = len(self._asked) - 1 if after is None else after
        if not ROOT <= parent < len(self._asked):
            raise DrafterError(f"asked after question {parent}: there are {len(self._asked)}")
        self._asked.append((self._known(token), parent))
        return len(self._asked) - 1

    def branch(
        self,
        logits: Float[Tensor, "vocab"],
        width: int,
        *,
        replacement: bool = False,
        after: int | None = None,
    ) -> tuple[int, ...]:
        """Draws `width` siblings from the distribution of `logits`, and returns their nodes.

        replacement: draw each from the whole distribution (i.i.d., duplicates stay), as SpecInfer
            does; otherwise from what the earlier ones left, as EAGLE-1 and Sequoia do, and
            fewer than `width` where the distribution has no more tokens.

        Raises:
            DrafterError: the pen is closed, or `logits` is no score of a vocabulary.
        """
        if self._sampling.greedy:
            # One token holds all the mass: nothing is left to draw without replacement.
            best = int(self._scores(logits).argmax())
            return self._submit([(best, None)] * (width if replacement else 1), after, logits)
        probs = self._distribution(logits)
        drawn: list[tuple[int, Tensor | None]] = []
        for _ in range(width):
            token = self._chance.categorical(probs)
            drawn.append((token, probs))
            if not replacement and len(drawn) < width:
                probs = probs.clone()
                probs[token] = 0
                mass = probs.sum()
                if mass <= 0:
                    break
                probs = probs / mass
        return self._submit(drawn, after, logits)

    def _distribution(self, logits: Float[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
        # In float64, so that what is recorded is what is drawn from, to the last bit that counts.
        probs = self._sampling.probs(self._scores(logits)).double()
        return probs / probs.sum()

    def _scores(self, logits: Float[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
        if logits.shape != (self.vocab_size,):
            shape = tuple(logits.shape)
            raise DrafterError(f"gave logits of shape {shape}: expected ({self.vocab_size},)")
        if not torch.isfinite(logits.max()):
            raise DrafterError("gave logits with NaN, infinity or no finite entry")
        return logits

    def _known(self, token: int) -> int:
        if not 0 <= token < self.vocab_size:
            raise DrafterError(f"wrote id {token}: the vocabulary has {self.vocab_size} tokens")
        return int(token)

    def questions(self) -> Draft:
        """Returns what was asked, as a tree without distributions."""
        tokens, parents = zip(*self._asked, strict=True) if self._asked else ((), ())
        return Draft(tokens, parents, (None,) * len(tokens))

    def finish(self) -> Draft:
        """Returns the draft as written so far."""
        return Draft(
            tuple(self._tokens), tuple(self._parents), tuple(self._laws), tuple(self._logits)
        )

    def _submit(
        self,
        drawn: list[tuple[int, Tensor | None]],
        after: int | None,
        logits: Tensor | None = None,
    ) -> tuple[int, ...]:
        parent = self.last if after is None else after
        if not ROOT <= parent <= self.last:
            raise DrafterError(f"wrote after node {parent}: the last node is {self.last}")
        depth = 1 + (0 if parent == ROOT else self._depths[parent])
        if self._stopped:
            raise DrafterError(f"wrote token {len(self) + 1}: the policy stopped at {len(self)}")
        if depth > self.gamma:
            raise DrafterError(f"wrote to depth {depth}: gamma is {self.gamma}")
        if len(self) + len(drawn) > self.budget:
            raise DrafterError(f"wrote {len(self) + len(drawn)} tokens: budget is {self.budget}")
        first = len(self)
        for token, probs in drawn:
            self._tokens.append(token)
            self._parents.append(parent)
            self._depths.append(depth)
            self._laws.append(probs)
            self._logits.append(logits)
        if self._more is not None:
            self._stopped = not self._more(self.finish())
        return tuple(range(first, len(self)))

    def __len__(self) -> int:
        return len(self._tokens)
