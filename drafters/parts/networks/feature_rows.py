"""FeatureRows: a feature network drafts chains for several texts, a row for each in its passes."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.contract.context import Context, Tokens
from outrider.contract.devices import placed
from outrider.contract.pen import Pen, draw_chains
from outrider.contract.programs import ROWS, Programs, can_draw_ahead, play_chains
from outrider.drafters.parts.networks.layer import Ids, States
from outrider.targets.passes.growing_tensor import GrowingTensor

LONG = 8
"""Up to this many new tokens of a text are read with those of others; more are read before."""


@final
class RowCache:
    """The keys and values of texts of different lengths, [texts, heads, tokens, head_dim] each.

    A network takes it for the `KeysAndValues` of one text. options: those of `GrowingTensor`.
    """

    def __init__(self, **options: Any) -> None:
        # Room that is masked is still multiplied: it must not be NaN.
        self._grown = [GrowingTensor(**{"zeros": True, **options}) for _ in range(2)]
        self._buffers: list[Tensor] = []
        self._texts = 0

    def __len__(self) -> int:
        """Returns the number of rows."""
        return self._texts

    def write_to(self, rows: slice, slots: Ids, width: int) -> None:
        """Sets where the next pass writes.

        rows: the texts that it is about. slots: where each of their tokens goes.
        width: how many tokens of each text it sees.
        """
        self._rows, self._slots, self._width = rows, slots, width

    def extend(self, keys: Tensor, values: Tensor) -> list[Tensor]:
        """Adds those of new tokens, and returns those of all tokens that the pass sees."""
        pair = keys, values
        whole = self.hold(self._width, [new[:1].expand(self._texts, -1, -1, -1) for new in pair])
        seen = [buffer[self._rows, :, : self._width] for buffer in whole]
        for buffer, new in zip(seen, pair, strict=True):
            buffer.scatter_(2, self._slots[:, None, :, None].expand_as(new), new)
        return seen

    def hold(self, width: int, like: Sequence[Tensor] = ()) -> list[Tensor]:
        """Makes room for so many tokens, and returns the whole buffers.

        There are none before the first pass. like: keys and values, if there may be none.
        """
        pairs = zip(self._grown, self._buffers or like, strict=False)
        self._buffers = [grown.reserve(width, each) for grown, each in pairs]
        return self._buffers

    def select(self, rows: Int[Tensor, "texts"]) -> None:
        """Keeps the texts of some rows, in another order; a text may come several times."""
        self._texts = len(rows)
        for grown in self._grown:
            grown.select(rows)
        self.hold(0)

    def clear(self) -> None:
        """Forgets all texts."""
        for grown in self._grown:
            grown.clear()


@final
class FeatureRows:
    """Drafts chains as a `FeatureDrafter` does for one text, for any texts at once.

    Each text has a row, which is found by what it holds. What is drafted is overwritten by the next
    pass. A recorded draft feeds as many positions of each text whatever was accepted, and has a
    power of two of rows, so that it serves texts that come and go.

    network: a `FeatureNetwork`. spread: turns the products of its head into logits.
    programs: what records its drafts, if anything does.
    """

    def __init__(
        self, network: Any, spread: Callable[[Tensor], Tensor], programs: Programs | None
    ) -> None:
        self._network, self._spread, self._programs = network, spread, programs
        self._cache: Any = None
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
        texts, pens = [context.tokens for context, _ in pairs], {row: pairs[row][1] for row in rows}
        depth = max(pen.remaining for pen in pens.values())
        can_play = self._programs is not None and all(map(can_draw_ahead, pens.values()))
        self._arrange(texts, device)
        count = ROWS * math.ceil((1 + depth) / ROWS) if can_play else 0
        held, given, width = self._catch_up(texts, features, count)
        buffers = self._cache.hold(width + depth) if can_play else ()
        if buffers and self._programs is not None:
            program = partial(self._program, buffers[0].shape[2])
            play_chains(pens, self._programs, program, given, buffers, rows=len(self._cache))
            self._texts = held
            return
        logits, go_on = self._program(width + depth, *given)
        self._texts = held

        def after(going: Sequence[int], tokens: Sequence[Any]) -> list[Tensor]:
            drawn = {rows[index]: token for index, token in zip(going, tokens, strict=True)}
            blank = torch.zeros_like(tokens[0]) if isinstance(tokens[0], Tensor) else 0
            ids = placed([drawn.get(row, blank) for row in range(len(self._cache))], device)
            after_all = go_on(ids)
            return [after_all[rows[index]] for index in going]

        draw_chains([*pens.values()], [logits[row] for row in rows], after)

    def _arrange(self, texts: Sequence[Tokens], device: torch.device) -> None:
        """Gives each text the row that holds its beginning, if there is one; others start over."""
        held, self._texts = self._texts, []  # an interruption leaves the rows in an unknown state
        found, count = continued(texts, dict(enumerate(held))), len(texts)
        if self._programs:
            count = max(len(self._cache or ()), 1 << (count - 1).bit_length())
        if self._cache is None:
            lend = self._programs.lend if self._programs else None
            self._cache = lend(self, RowCache, count) if lend else RowCache()
        if found != list(range(len(texts))) or count != len(self._cache):
            rows = [row or 0 for row in found] + [0] * (count - len(texts))
            self._cache.select(placed(rows, device))
        self._texts = [Tokens([]) if row is None else held[row] for row in found]

    def _catch_up(
        self, texts: Sequence[Tokens], features: Mapping[int, Sequence[Tensor]], count: int
    ) -> tuple[list[Tokens], list[Tensor], int]:
        """Reads what the rows lack of their texts, but for the last positions.

        features: by row, the target's; a text without any is not read.
        count: how many positions to leave, if not only those that are new.

        Returns:
            What the rows hold once its first pass is over, what the program is given, and how many
            slots that pass sees.
        """
        # Each position takes its state and the token after it. The last one is always fed again,
        # since the cache holds no states.
        held, self._texts = self._texts, []  # as in `_arrange`
        starts = [max(0, len(text) - 1) for text in held] + [0] * (len(self._cache) - len(texts))
        new: list[Sequence[int]] = [()] * len(starts)
        for row, own in features.items():
            text, end = texts[row], len(texts[row]) - 1
            start = min(starts[row], end - 1)
            left = end - count if count else start
            if end - start > (count or LONG):
                left = end - (count or 1)
                self._read_alone(row, text[start + 1 : left + 1], own, start)
            starts[row] = max(0, left)
            new[row], held[row] = text[starts[row] + 1 :], Tokens(text[:])
        count = count or max(map(len, new))
        numbers = [
            number
            for start, ids in zip(starts, new, strict=True)
            for number in (start, max(0, len(ids) - 1), *ids, *[0] * (count - len(ids)))
        ]
        window = list[Tensor]()
        for index in range(len(self._network.reads)):
            like = features[min(features)][index]
            missing = count - min(map(len, new))
            blank = like.new_zeros(missing, like.shape[-1]) if missing else like[:0]
            parts = list[Tensor]()
            for row, ids in enumerate(new):
                states = features[row][index][starts[row] :][: len(ids)] if ids else blank[:0]
                parts += [part for part in (states, blank[: count - len(ids)]) if len(part)]
            whole = torch.cat(parts) if len(parts) > 1 else parts[0]
            window.append(whole.view(len(new), count, -1))
        given = [placed(numbers, like.device).view(len(new), -1), *window]
        return held, given, max(starts) + count

    def _read_alone(
        self, row: int, ids: Sequence[int], features: Sequence[Tensor], start: int
    ) -> None:
        """Reads a part of a text, from a position on, in a pass without the others."""
        end = start + len(ids)
        states = self._network.states([rows[start:end] for rows in features])
        slots = torch.arange(start, end, device=states.device)[None]
        self._feed(states[None], placed(ids, states.device)[None], slots, end, slice(row, row + 1))

    def _program(
        self, width: int, numbers: Int[Tensor, "texts count+2"], *features: States
    ) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Returns the logits after each text, and what returns those after each drafted token.

        width: how many slots a pass sees. features: the target's, at the positions that are fed.
        numbers: for each text, the slot of the first of them, the index of the last, and the tokens
            after them; what comes after the last one is overwritten before anything sees it.
        """
        first, last, ids = numbers[:, :1], numbers[:, 1:2], numbers[:, 2:]
        slots = first + torch.arange(ids.shape[1], device=ids.device)
        states = self._feed(self._network.states(features), ids, slots, width)
        state, slot = states.take_along_dim(last[..., None], 1), first + last

        def after(tokens: Int[Tensor, "texts"]) -> Tensor:
            nonlocal state, slot
            slot = slot + 1
            state = self._feed(state, tokens[:, None], slot, width)
            return self._logits(state)

        return self._logits(state), after

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
