"""Pen: the only way to write a draft, since it records each token with its distribution."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import final

from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import DrafterError
from outrider.contract import drawing
from outrider.contract.chance import Chance
from outrider.contract.constraint import Guide
from outrider.contract.draft import ROOT, Draft
from outrider.contract.sampling import Sampling, likeliest
from outrider.contract.sheet import Drawn, Sheet


@final
class Pen:
    """Writes one draft: draws tokens with the run's sampling and chance, and records distributions.

    gamma: the greatest depth of the draft (Leviathan's γ).
    budget: the greatest number of nodes. Defaults to gamma, which is enough for a chain.
    more: the policy's answer to whether to go on, given the draft so far.
    start: the position in the text of the draft's first token, if the acceptance rule is coupled.
        Tokens are then drawn with the noise of their position. None draws them independently.
    guide: the constraint that drafts keep to: it changes logits before a token is drawn.
    """

    def __init__(  # noqa: PLR0913  what a draft depends on, by name
        self,
        *,
        sampling: Sampling,
        chance: Chance,
        vocab_size: int,
        gamma: int,
        budget: int | None = None,
        more: Callable[[Draft], bool] | None = None,
        start: int | None = None,
        guide: Guide | None = None,
    ) -> None:
        self._deepest = self._gamma = gamma
        self._budget = gamma if budget is None else budget
        self._vocab_size = vocab_size
        self._sampling, self._chance, self._guide, self._start = sampling, chance, guide, start
        self._sheet = Sheet(more)
        self._root = ROOT  # the node of the sheet that is the root to this pen
        self._successor: Pen | None = None  # what goes on after this pen
        self._guesses: Pen | None = None
        self._guessed_from = 0

    @property
    def gamma(self) -> int:
        """Returns the greatest depth of the draft."""
        return self._deepest - self._sheet.depth(self._root)

    @property
    def budget(self) -> int:
        """Returns the greatest number of nodes of the draft."""
        return self._budget - self._first

    @property
    def vocab_size(self) -> int:
        """Returns the size of the vocabulary."""
        return self._vocab_size

    def limit(self, depth: int) -> None:
        """Lowers gamma to `depth`, for a drafter that can't reach deeper. It never rises."""
        self._settle()
        self._deepest = min(self._deepest, self._sheet.depth(self._root) + depth)

    @property
    def open(self) -> bool:
        """Returns whether a token may follow the last one.

        The answer depends only on tokens already in the draft. To stop, ask before drawing. A token
        that was drawn stays in the draft: dropping it because of its value would bias the text.
        """
        return self.room > 0 and self._depth_after(self.last) < self._deepest

    @property
    def room(self) -> int:
        """Returns how many more nodes may be written; 0 once the policy has stopped the draft."""
        return 0 if self._sheet.stopped else self.budget - len(self)

    @property
    def last(self) -> int:
        """Returns the last node written; -1 if there is none."""
        return len(self) - 1

    def token(self, node: int) -> int:
        """Returns the id at `node`."""
        return self._sheet.tokens[self._first + node]

    def continued(self) -> "Pen":
        """Returns a pen that goes on after the last node, for a second drafter.

        It writes into the same draft. To it, the context ends with that node: its nodes are
        numbered from 0, and gamma and budget are what is left of them. A `limit` set on this pen
        does not apply to it.
        """
        self._settle()
        self._successor = pen = copy.copy(self)
        pen._successor = pen._guesses = None
        pen._root = len(self._sheet.tokens) - 1
        pen._deepest = self._gamma
        return pen

    def guide(self, after: int | None = None) -> Guide | None:
        """Returns the guide to what may follow a node, the last by default; None without one.

        Draws follow the constraint anyway. Ask before writing a token that was chosen.
        """
        node = self._on_sheet(self.last if after is None else after)
        return None if self._guide is None else self._guide.after(self._sheet.path(node))

    def draw(self, logits: Float[Tensor, "vocab"], after: int | None = None) -> int:
        """Draws a token from the distribution of `logits` under the run's sampling; returns its id.

        after: the node that the token continues. Defaults to the last one.

        Raises:
            DrafterError: the pen is closed, or `logits` does not describe a distribution over the
                vocabulary.
        """
        return self.token(self.branch(logits, 1, after=after)[0])

    def redraw(self, logits: Float[Tensor, "vocab"]) -> int:
        """Draws a token from the distribution of `logits`; keeps its guess as often as possible.

        The guess x of the pen from `faster` is kept with probability min(1, p(x) / q(x)) and
        otherwise replaced by a draw from norm(max(0, p - q)), so the token has distribution p
        whatever the guess was (2211.17192, Algorithm 1). p is what is recorded. It may depend on
        the guesses before x, but not on x.

        Raises:
            DrafterError: there is no guess for the token, or as `draw` does.
        """
        pen, node = self._guesses, len(self) - self._guessed_from
        if pen is None or node >= len(pen):
            raise DrafterError(f"redrew token {len(self) + 1}: there is no guess for it")
        guess, self._guesses = pen.finish(), None
        token = self._replaced(guess, node, logits)
        if token == guess.tokens[node]:
            self._guesses = pen  # the guesses that continue this one are still good
        return token

    def _replaced(self, guess: Draft, node: int, logits: Float[Tensor, "vocab"]) -> int:
        if self._sampling.greedy or self._start is not None:
            return self.draw(logits)  # shared noise has made the guess likely already
        logits = self._checked(logits, None)
        probs = drawing.exact_distribution(self._sampling, logits)
        q = guess.distribution(node, probs)
        token = drawing.kept_or_redrawn(guess.tokens[node], q, probs, self._chance)
        return self.token(self._submit([(token, probs)], None, logits)[0])

    def faster(self, gamma: int) -> "Pen":
        """Returns a pen for a faster drafter, whose tokens are guesses of those written next.

        Each has to be redrawn, up to the first that is replaced: skipping one would bias the draft.
        Raises `DrafterError` if a guess of an earlier such pen is left.
        """
        self._settle()
        self._guessed_from = len(self)
        self._guesses = self.apart(gamma)
        return self._guesses

    def apart(self, gamma: int, budget: int | None = None) -> "Pen":
        """Returns a pen for a separate draft, with the same sampling and chance."""
        start = None if self._start is None else self._start + self._depth_after(self.last)
        return Pen(
            sampling=self._sampling, chance=self._chance, vocab_size=self.vocab_size, gamma=gamma,
            budget=budget, start=start, guide=self.guide(),
        )  # fmt: skip

    def _settle(self) -> None:
        """Raises `DrafterError` if the next token has a guess, which only `redraw` may replace."""
        if self._successor is not None:
            self._successor._settle()
        if self._guesses is not None:
            self._guesses._settle()
            if self.open and len(self) - self._guessed_from < len(self._guesses):
                raise DrafterError(f"passed over the guess of token {len(self) + 1}: use redraw")

    def write(self, token: int, after: int | None = None) -> int:
        """Writes a token that was chosen, not drawn, such as a copy or an argmax; returns its id.

        Its distribution is a point mass.

        Raises:
            DrafterError: the pen is closed, or `token` is not in the vocabulary.
        """
        checked = drawing.checked_token(token, self.vocab_size)
        self._submit([(checked, None)], after)
        return checked

    def ask(self, token: int, after: int | None = None, *, node: int | None = None) -> int:
        """Has the target score `token` in the same pass, outside the draft; returns its question.

        The logits after it are handed to the drafter's `answer`. Questions form a tree of their
        own, numbered from 0.

        after: the question that this one continues, -1 for the context. Defaults to the last one.
        node: the node of the draft that it continues, in place of a question.

        Raises:
            DrafterError: `token` is not in the vocabulary, or there is no question `after` or no
                `node`.
        """
        asked = self._sheet.asked
        parent = len(asked) - 1 if after is None else after
        if not ROOT <= parent < len(asked):
            raise DrafterError(f"asked after question {parent}: there are {len(asked)}")
        if node is not None or parent == ROOT:
            parent = -2 - self._on_sheet(ROOT if node is None else node, "asked")
        asked.append((drawing.checked_token(token, self.vocab_size), parent))
        return len(asked) - 1

    def branch(
        self,
        logits: Float[Tensor, "vocab"],
        width: int,
        *,
        replacement: bool = False,
        after: int | None = None,
    ) -> tuple[int, ...]:
        """Draws `width` siblings from the distribution of `logits`, and returns their nodes.

        replacement: draw each independently, so that duplicates can occur, as in SpecInfer.
            Otherwise each is drawn from the tokens that are left, as in EAGLE-1 and Sequoia; there
            are fewer than `width` if the distribution runs out of tokens.
        after: the node that they continue. Defaults to the last one.

        Raises:
            DrafterError: as `draw` does.
        """
        logits = self._checked(logits, after)
        if self._sampling.greedy:
            # One token has all the probability: without replacement there is no second one.
            best = int(likeliest(logits))
            return self._submit([(best, None)] * (width if replacement else 1), after, logits)
        probs = drawing.exact_distribution(self._sampling, logits)
        drawn = drawing.siblings(probs, width, partial(self._next, after), replacement=replacement)
        return self._submit(drawn, after, logits)

    def _next(self, after: int | None, probs: Float[Tensor, "vocab"]) -> int:
        if self._start is None:
            return self._chance.categorical(probs)
        parent = self.last if after is None else after
        return self._chance.race(probs, self._start + self._depth_after(parent))

    def _depth_after(self, node: int) -> int:
        """Returns how many tokens of the draft precede a child of `node`, from the context on."""
        return self._sheet.depth(self._on_sheet(node))

    def _checked(self, logits: Float[Tensor, "vocab"], after: int | None) -> Float[Tensor, "vocab"]:
        """Returns the logits of a drafter, under the constraint if there is one."""
        checked, guide = drawing.checked_logits(logits, self.vocab_size), self.guide(after)
        return checked if guide is None else guide.steered(checked)

    def questions(self) -> Draft:
        """Returns the questions as a tree of written tokens, for `Draft.joined`."""
        return self._sheet.questions()

    def finish(self) -> Draft:
        """Returns the draft; raises `DrafterError` if the next token's guess was not redrawn."""
        self._settle()
        return self._sheet.draft()

    @property
    def _first(self) -> int:
        """Returns the node of the sheet that is this pen's node 0."""
        return self._root + 1

    def _on_sheet(self, node: int, verb: str = "wrote") -> int:
        if not ROOT <= node <= self.last:
            raise DrafterError(f"{verb} after node {node}: the last node is {self.last}")
        return self._root if node == ROOT else self._first + node

    def _submit(
        self, drawn: Sequence[Drawn], after: int | None, logits: Tensor | None = None
    ) -> tuple[int, ...]:
        parent = self.last if after is None else after
        on_sheet = self._on_sheet(parent)
        depth = 1 + self._depth_after(parent) - self._depth_after(ROOT)
        if self._sheet.stopped:
            raise DrafterError(f"wrote token {len(self) + 1}: the policy stopped at {len(self)}")
        if depth > self.gamma:
            raise DrafterError(f"wrote to depth {depth}: gamma is {self.gamma}")
        if len(self) + len(drawn) > self.budget:
            raise DrafterError(f"wrote {len(self) + len(drawn)} tokens: budget is {self.budget}")
        self._settle()
        self._guesses, first = None, len(self)
        self._sheet.submit(drawn, on_sheet, logits)
        return tuple(range(first, len(self)))

    def __len__(self) -> int:
        return len(self._sheet.tokens) - self._first
