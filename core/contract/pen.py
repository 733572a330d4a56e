"""The only way to write a draft: a pen records each token with the distribution it was drawn from.

What every drafter needs stands here; a drafter that combines others also reads `composition`.
"""

from collections.abc import Callable, Sequence
from typing import Any, final

from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import DrafterError
from outrider.contract.constraint import Guide
from outrider.contract.deferred import Picked, can_defer_reads, pick, read
from outrider.contract.draft import ROOT
from outrider.contract.sampling import likeliest
from outrider.contract.sheet import Drawn, Sheet, checked_token, checked_width


@final
class Pen:
    """Writes one draft: draws tokens with the run's sampling and chance, and records distributions.

    sheet: what it writes on. The loop reads the draft from it; a drafter has no need of it.
    root: the node of the sheet after which the pen begins; to the pen, the context ends there.
    """

    def __init__(self, sheet: Sheet, root: int = ROOT) -> None:
        self.sheet = sheet
        self._root, self._deepest = root, sheet.gamma

    @property
    def gamma(self) -> int:
        """Returns the greatest depth of the draft."""
        return self._deepest - self.sheet.depth(self._root)

    @property
    def budget(self) -> int:
        """Returns the greatest number of nodes of the draft."""
        most = self.sheet.gamma if self.sheet.budget is None else self.sheet.budget
        return most - self._first

    @property
    def vocab_size(self) -> int:
        """Returns the size of the vocabulary."""
        return self.sheet.vocab_size

    def limit(self, depth: int) -> None:
        """Lowers gamma to `depth`, for a drafter that can't reach deeper. It never rises."""
        self.sheet.settle()
        self._deepest = min(self._deepest, self.sheet.depth(self._root) + depth)

    @property
    def open(self) -> bool:
        """Returns whether a token may follow the last one.

        The answer depends only on tokens already in the draft. To stop, ask before drawing. A token
        that was drawn stays in the draft: dropping it because of its value would bias the text.
        """
        return self.remaining > 0

    @property
    def room(self) -> int:
        """Returns how many more nodes may be written; 0 once the policy has stopped the draft."""
        return 0 if self.sheet.stopped else self.budget - len(self)

    @property
    def remaining(self) -> int:
        """Returns how many more tokens a chain after the last node may have."""
        return min(self.room, self._deepest - self.sheet.depth(self.sheet.last))

    @property
    def last(self) -> int:
        """Returns the last node written; -1 if there is none."""
        return len(self) - 1

    def token(self, node: int) -> int:
        """Returns the id at `node`."""
        return self.sheet.tokens[self._first + node]

    def guide(self, after: int | None = None) -> Guide | None:
        """Returns the guide to what may follow a node, the last by default; None without one.

        Draws follow the constraint anyway. Ask before writing a token that was chosen.
        """
        return self.sheet.guide_after(self.sheet_node(after))

    def draw(self, logits: Float[Tensor, "vocab"], after: int | None = None) -> int:
        """Draws a token from the distribution of `logits` under the run's sampling; returns its id.

        after: the node that the token continues. Defaults to the last one.

        Raises `DrafterError` if the pen is closed, or `logits` does not describe a distribution
        over the vocabulary.
        """
        return self.token(self.branch(logits, 1, after=after)[0])

    def write(self, token: int, after: int | None = None) -> int:
        """Writes a token that was chosen, not drawn, such as a copy or an argmax; returns its id.

        Its distribution is a point mass.

        Raises `DrafterError` if the pen is closed, or `token` is not in the vocabulary.
        """
        checked = checked_token(token, self.vocab_size)
        self.submit_drawn([(checked, None)], after)
        return checked

    def latent(self, probs: Float[Tensor, "n"]) -> int:
        """Draws a number that is no token, such as the category of a block; returns it.

        Whatever is drawn after it may depend on it. Each token is recorded with its distribution
        given the number, and a rule that is exact for any draft is exact for each number. At
        temperature 0 it is the likeliest number.

        probs: how likely each number from 0 on is; they need not sum to 1.

        Raises `DrafterError` if they do not describe a distribution.
        """
        return self.sheet.latent(probs)

    def chain(
        self, logits: Float[Tensor, "vocab"], after: Callable[[Any], Float[Tensor, "vocab"]]
    ) -> list[int]:
        """Draws one token after another while the draft is open; returns their ids.

        On an accelerator the tokens stay there until the last is drawn, and are read with one wait,
        if no policy or constraint has to see them before.

        logits: for the first of them.
        after: returns the logits of the next one, given an id, or a tensor [1] on the device of
            `logits`.

        Raises `DrafterError` as `draw` does.
        """
        first = len(self)
        draw_chains([self], [logits], lambda _, tokens: [after(tokens[0])])
        return [self.token(node) for node in range(first, len(self))]

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

        Raises `DrafterError` as `draw` does, or `width` is no number of siblings.
        """
        width = checked_width(width)
        sheet, parent = self.sheet, self.sheet_node(after)
        # The drafter may reuse its buffer, and the row may be a view of a large tensor.
        logits = sheet.checked(logits, parent).clone()
        if sheet.sampling.greedy:
            # One token has all the probability: without replacement there is no second one.
            best = int(likeliest(logits))
            return self.submit_drawn([(best, None)] * (width if replacement else 1), after, logits)
        probs = sheet.sampling.exact(logits)
        drawn: list[Drawn] = [(sheet.draw(probs, parent), probs)]
        while len(drawn) < width:
            if not replacement:
                probs = probs.clone()
                probs[drawn[-1][0]] = 0
                mass = probs.sum()
                if not mass > 0:  # which is waited for on an accelerator
                    break
                probs = probs / mass
            drawn.append((sheet.draw(probs, parent), probs))
        return self.submit_drawn(drawn, after, logits)

    def submit_drawn(
        self, drawn: Sequence[Drawn], after: int | None = None, logits: Tensor | None = None
    ) -> tuple[int, ...]:
        """Records siblings as they were drawn, and returns their nodes.

        For the contract's own draws. A drafter does not call it: the distribution that it hands
        over has to be the one that the tokens were drawn from.

        Raises `DrafterError` if the pen is closed, or there is no node `after`.
        """
        parent = self.sheet_node(after)
        depth = 1 + self.sheet.depth(parent) - self.sheet.depth(self._root)
        if self.sheet.stopped:
            raise DrafterError(f"wrote token {len(self) + 1}: the policy stopped at {len(self)}")
        if depth > self.gamma:
            raise DrafterError(f"wrote to depth {depth}: gamma is {self.gamma}")
        if len(self) + len(drawn) > self.budget:
            raise DrafterError(f"wrote {len(self) + len(drawn)} tokens: budget is {self.budget}")
        first = len(self)
        self.sheet.submit(drawn, parent, logits)
        return tuple(range(first, len(self)))

    def sheet_node(self, node: int | None) -> int:
        """Returns the node of the sheet that is `node` to this pen, the last one for None.

        -1 is where the pen begins.
        """
        if node is None:
            return self.sheet.last
        if not ROOT <= node <= self.last:
            raise DrafterError(f"has no node {node}: the last one is {self.last}")
        return self._root if node == ROOT else self._first + node

    @property
    def _first(self) -> int:
        """Returns the node of the sheet that is this pen's node 0."""
        return self._root + 1

    def __len__(self) -> int:
        return len(self.sheet.tokens) - self._first


def draw_chains(
    pens: Sequence[Pen],
    logits: Sequence[Float[Tensor, "vocab"]],
    after: Callable[[Sequence[int], Sequence[Any]], Sequence[Float[Tensor, "vocab"]]],
) -> None:
    """Draws a chain with each of several pens, as `Pen.chain` does, a token of each at a time.

    On an accelerator the tokens of all of them are read with one wait.

    logits: for the first token of each.
    after: returns the logits of the next token of some pens, given their indices and last tokens.
    """
    going = [index for index, pen in enumerate(pens) if pen.open]
    defers = bool(going) and all(
        can_defer_reads(pens[index].sheet, logits[index]) for index in going
    )
    lengths = [pen.remaining for pen in pens]
    drawn: list[list[Picked]] = [[] for _ in pens]
    rows: Sequence[Tensor] = [logits[index] for index in going]
    while going:
        tokens: dict[int, Any] = {}
        if defers:
            found = pick([pens[index].sheet for index in going], rows)
            for index, picked in zip(going, found, strict=True):
                drawn[index].append(picked)
                tokens[index] = picked.token
        else:
            tokens = {index: pens[index].draw(row) for index, row in zip(going, rows, strict=True)}
        going = [
            index
            for index in going
            if (len(drawn[index]) < lengths[index] if defers else pens[index].open)
        ]
        rows = after(going, [tokens[index] for index in going]) if going else ()
    if defers:
        ids = iter(read([picked for chain in drawn for picked in chain]))
        for pen, chain in zip(pens, drawn, strict=True):
            for picked in chain:
                pen.submit_drawn([(next(ids), picked.probs)], logits=picked.logits)
