"""FeatureRows: a feature network drafts chains for several texts, a row for each in its passes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.contract.context import Context, Tokens
from outrider.contract.devices import placed
from outrider.contract.pen import Pen, draw_chains
from outrider.drafters.parts.networks.layer import Ids, States
from outrider.targets.passes.growing_tensor import GrowingTensor

LONG = 8
"""Up to this many new tokens of a text are read with those of others; more are read before."""


@final
class RowCache:
    """The keys and values of texts of different lengths, [texts, heads, tokens, head_dim] each.

    A network takes it for the `KeysAndValues` of one text.
    """

    def __init__(self) -> None:
        # Room that is masked is still multiplied: it must not be NaN.
        self._grown = GrowingTensor(zeros=True), GrowingTensor(zeros=True)
        self._texts = 0

    def write_to(self, rows: slice, slots: Ids, width: int) -> None:
        """Sets where the next pass writes.

        rows: the texts that it is about. slots: where each of their tokens goes.
        width: how many tokens of each text it sees.
        """
        self._rows, self._slots, self._width = rows, slots, width

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Adds those of new tokens, and returns those of all tokens that the pass sees."""
        return self._with(self._grown[0], keys), self._with(self._grown[1], values)

    def _with(self, grown: GrowingTensor, new: Tensor) -> Tensor:
        whole = grown.reserve(self._width, new[:1].expand(self._texts, -1, -1, -1))
        seen = whole[self._rows, :, : self._width]
        return seen.scatter_(2, self._slots[:, None, :, None].expand_as(new), new)

    def select(self, rows: Int[Tensor, "texts"]) -> None:
        """Keeps the texts of some rows, in another order; a text may come several times."""
        self._texts = len(rows)
        for grown in self._grown:
            grown.select(rows)


@final
class FeatureRows:
    """Drafts chains as a `FeatureDrafter` does for one text, for any texts at once.

    Each text has a row, which is found by what it holds. What is drafted is overwritten by the next
    pass.

    network: a `FeatureNetwork`. spread: turns the products of its head into logits.
    """

    def __init__(self, network: Any, spread: Callable[[Tensor], Tensor]) -> None:
        self._network, self._spread = network, spread
        self._cache = RowCache()
        self._texts: list[Tokens] = []  # all but the last token of each is in the cache

    def __len__(self) -> int:
        """Returns the number of texts."""
        return len(self._texts)

    @torch.no_grad()
    def draft(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        """Writes a draft for each pair, or nothing if the target has not read its prompt yet."""
        reads = self._network.reads
        features = {
            row: [context.features[name] for name in reads]
            for row, (context, pen) in enumerate(pairs)
            if pen.open and all(name in context.features for name in reads)
        }
        if not features:
            return
        rows, device = list(features), features[min(features)][0].device
        texts = [context.tokens for context, _ in pairs]
        self._arrange(texts, device)
        states, slots, width = self._catch_up(texts, features)
        logits = self._logits(states)

        def after(going: Sequence[int], tokens: Sequence[Any]) -> list[Tensor]:
            nonlocal states, slots, width
            drawn = {rows[index]: token for index, token in zip(going, tokens, strict=True)}
            blank = torch.zeros_like(tokens[0]) if isinstance(tokens[0], Tensor) else 0
            ids = placed([drawn.get(row, blank) for row in range(len(texts))], device)
            slots, width = slots + 1, width + 1
            states = self._feed(states, ids[:, None], slots, width)
            after_all = self._logits(states)
            return [after_all[rows[index]] for index in going]

        draw_chains([pairs[row][1] for row in rows], [logits[row] for row in rows], after)

    def _arrange(self, texts: Sequence[Tokens], device: torch.device) -> None:
        """Gives each text the row that holds its beginning, if there is one; others start over."""
        held, self._texts = self._texts, []  # an interruption leaves the rows in an unknown state
        found = continued(texts, dict(enumerate(held)))
        if found != list(range(len(held))):
            self._cache.select(placed([row or 0 for row in found], device))
        self._texts = [Tokens([]) if row is None else held[row] for row in found]

    def _catch_up(
        self, texts: Sequence[Tokens], features: Mapping[int, Sequence[Tensor]]
    ) -> tuple[Float[Tensor, "texts 1 w"], Int[Tensor, "texts 1"], int]:
        """Reads what the rows lack of their texts.

        features: by row, the target's; a text without any is not read.

        Returns:
            The state at each text's newest token, its slot, and how many slots the pass saw.
        """
        # Each position takes its state and the token after it. The last one is always fed again,
        # since the cache holds no states.
        held, self._texts = self._texts, []  # as in `_arrange`
        starts = [max(0, len(text) - 1) for text in held]
        new: list[Sequence[int]] = [()] * len(texts)
        for row, given in features.items():
            text, end = texts[row], len(texts[row]) - 1
            start = min(starts[row], end - 1)
            if end - start > LONG:
                self._read_alone(row, text[start + 1 : end], given, start)
                start = end - 1
            starts[row], new[row], held[row] = start, text[start + 1 :], Tokens(text[:])
        count = max(map(len, new))
        ends = {row: starts[row] + len(new[row]) for row in features}
        parts = [[each[starts[row] : ends[row]] for each in features[row]] for row in features]
        flat = self._network.states([torch.cat(rows) for rows in zip(*parts, strict=True)])
        device, firsts = flat.device, [row * count for row in range(len(texts))]
        states = flat.new_zeros(len(texts) * count, flat.shape[-1])
        filled = [firsts[row] + column for row, ids in enumerate(new) for column in range(len(ids))]
        states.index_copy_(0, placed(filled, device), flat)
        ids = placed([token for row in new for token in (*row, *[0] * (count - len(row)))], device)
        slots = placed(starts, device)[:, None] + torch.arange(count, device=device)
        width = max(starts) + count
        after = self._feed(states.unflatten(0, slots.shape), ids.view_as(slots), slots, width)
        lasts = [first + max(0, len(ids) - 1) for first, ids in zip(firsts, new, strict=True)]
        last = placed(lasts, device)
        self._texts = held
        return after.flatten(0, 1)[last, None], slots.flatten()[last, None], width

    def _read_alone(
        self, row: int, ids: Sequence[int], features: Sequence[Tensor], start: int
    ) -> None:
        """Reads a part of a text, from a position on, in a pass without the others."""
        end = start + len(ids)
        states = self._network.states([rows[start:end] for rows in features])
        slots = torch.arange(start, end, device=states.device)[None]
        self._feed(states[None], placed(ids, states.device)[None], slots, end, slice(row, row + 1))

    def _feed(
        self, states: States, ids: Ids, slots: Ids, width: int, rows: slice = slice(None)
    ) -> States:
        sees = torch.arange(width, device=states.device) <= slots[:, None, :, None]
        self._cache.write_to(rows, slots, width)
        after: Tensor = self._network(states, ids, slots, sees, self._cache)
        return after

    def _logits(self, states: Float[Tensor, "texts 1 w"]) -> Float[Tensor, "texts vocab"]:
        return self._spread(self._network.logits(states[:, 0]))


def continued(texts: Sequence[Tokens], held: Mapping[int, Tokens]) -> list[int | None]:
    """Returns for each text the key of one that it begins with, each at most once; None if none.

    held: by key, texts as they were; an empty one is nobody's beginning.
    """
    left, found = dict(held), list[int | None]()
    for text in texts:
        keys = (key for key, part in left.items() if 0 < len(part) == part.shared(text))
        found.append(key := next(keys, None))
        if key is not None:
            del left[key]
    return found
