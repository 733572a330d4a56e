"""TextRows: a network drafts for several texts, a row for each in its passes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, final

import torch
from jaxtyping import Int
from torch import Tensor

from outrider.contract.context import Context, Tokens, beginnings
from outrider.contract.devices import placed
from outrider.contract.pen import Pen
from outrider.contract.programs import Programs, can_draw_ahead, play_chains, positions_fed
from outrider.contract.tree_programs import play_nodes
from outrider.drafters.parts.networks.layer import Ids, States
from outrider.drafters.parts.trees.shapes import Shape
from outrider.targets.passes.growing_tensor import GrowingTensor

Features = Mapping[int, Sequence[Tensor]]
"""The target's states that a network reads, by the row of a text."""

LONG = 8
"""Up to this many new tokens of a text are read with those of others; more are read before."""


@final
class RowCache:
    """The keys and values of texts of different lengths, [texts, layers, heads, tokens, dim] each.

    A network takes it for the `KeysAndValues` of one text, or for its `LayerCaches`.

    options: those of `GrowingTensor`. layers: how many layers have some.
    """

    layers: int = 1

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

    @property
    def of_layer(self) -> list[Any]:
        """Returns the cache of each layer."""
        layers = range(self.layers)
        return [SimpleNamespace(extend=partial(self.extend, layer=layer)) for layer in layers]

    def extend(self, keys: Tensor, values: Tensor, layer: int = 0) -> list[Tensor]:
        """Adds those of new tokens, and returns those of all tokens that the pass sees."""
        pair, sizes = (keys, values), (self._texts, self.layers, -1, -1, -1)
        whole = self.hold(self._width, [new[:1, None].expand(sizes) for new in pair])
        seen = [buffer[self._rows, layer, :, : self._width] for buffer in whole]
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


class TextRows(ABC):
    """Drafts on features of the target for any texts at once; trees by recorded programs.

    Each text has a row, which is found by what it holds. What is drafted is overwritten by the next
    pass. A recorded draft feeds as many positions of each text whatever was accepted, and has a
    power of two of rows, so that it serves texts that come and go.

    network: says what it `reads`. spread: turns the products of its head into logits.
    programs: what records its drafts, if anything does.
    layers: how many of its layers have keys and values.
    room: how many slots after a text it writes to, if not as many as a draft has tokens.
    foreseen: as for `play_chains`.
    """

    def __init__(
        self,
        network: Any,
        spread: Callable[[Tensor], Tensor],
        programs: Programs | None,
        *,
        layers: int = 1,
        room: int = 0,
        foreseen: Callable[[int, float], bool] | None = None,
    ) -> None:
        self._network, self._spread, self._programs = network, spread, programs
        self._layers, self._room, self._foreseen = layers, room, foreseen
        self._cache: Any = None
        self._texts: list[Tokens] = []  # all but the last token of each is in the cache

    def __len__(self) -> int:
        """Returns the number of texts."""
        return len(self._texts)

    @torch.no_grad()
    def draft(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        """Writes a chain for each pair, or nothing if the target has not read its prompt yet."""
        if not (features := self._features(pairs)):
            return
        pens = {row: pairs[row][1] for row in features}
        depth = max(pen.remaining for pen in pens.values())
        programs = self._programs if all(map(can_draw_ahead, pens.values())) else None
        texts = self._arrange(pairs, features)
        write = partial(play_chains, pens, rows=len(self._cache), foreseen=self._foreseen)
        self._write(write, texts, features, programs=programs, depth=depth, nodes=depth)

    @torch.no_grad()
    def grow(self, pairs: Sequence[tuple[Context, Pen]], shape: Shape) -> bool:
        """Does so with trees, by recorded programs, and returns whether that is possible."""
        features = self._features(pairs) if self._programs else {}
        if not features:
            return self._programs is not None
        texts = self._arrange(pairs, features)

        def play(
            pens: Mapping[int, Pen], key: Hashable, grown: Any, nodes: int, shares: Tensor
        ) -> list[Tensor]:
            own, depth = {row: features[row] for row in pens}, next(iter(pens.values())).gamma
            write = partial(play_nodes, key=key, grown=grown, shares=shares)
            found: list[Tensor] = self._write(
                write, texts, own, programs=self._programs, depth=depth, nodes=nodes
            )
            return found

        return shape.play({row: pairs[row][1] for row in features}, play, len(self._cache))

    def _features(self, pairs: Sequence[tuple[Context, Pen]]) -> Features:
        """Returns what the network reads of each text that has it, and may have a draft."""
        reads = self._network.reads
        return {
            row: [context.features[name] for name in reads]
            for row, (context, pen) in enumerate(pairs)
            if pen.open and all(name in context.features for name in reads)
        }

    def _write(
        self,
        write: Callable[..., Any],
        texts: Sequence[Tokens],
        features: Features,
        *,
        programs: Programs | None,
        depth: int,
        nodes: int,
    ) -> Any:
        """Returns what is written by a program over the last positions of the texts.

        write: is given what records it, if anything does, the program, its tensors and its buffers.
        nodes: how many slots after a text it writes to at least.
        """
        count = positions_fed(depth) if programs else 0
        held, given, width = self._catch_up(texts, features, count)
        width += max(nodes, self._room)
        buffers = self._cache.hold(width) if programs else ()
        programs, size = (programs, buffers[0].shape[-2]) if buffers else (None, width)
        found = write(programs, partial(self._program, depth, size), given, buffers)
        self._texts = held
        return found

    def _arrange(
        self, pairs: Sequence[tuple[Context, Pen]], features: Features
    ) -> Sequence[Tokens]:
        """Gives each text the row that holds its beginning, if there is one; others start over."""
        texts = [context.tokens for context, _ in pairs]
        held, self._texts = self._texts, []  # an interruption leaves the rows in an unknown state
        found, count = beginnings(texts, dict(enumerate(held))), len(texts)
        if self._programs:
            count = max(len(self._cache or ()), 1 << (count - 1).bit_length())
        if self._cache is None:
            lend = self._programs.lend if self._programs else None
            self._cache = lend(self, RowCache, count) if lend else RowCache()
            self._cache.layers = self._layers
        if found != list(range(len(texts))) or count != len(self._cache):
            rows = [row or 0 for row in found] + [0] * (count - len(texts))
            self._cache.select(placed(rows, features[min(features)][0].device))
        self._texts = [Tokens([]) if row is None else held[row] for row in found]
        return texts

    def _catch_up(
        self, texts: Sequence[Tokens], features: Features, count: int
    ) -> tuple[list[Tokens], list[Tensor], int]:
        """Reads what the rows lack of their texts, but for the last positions.

        features: a text without any is not read.
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
        earlier = [texts[row][-2:][0] if row in features else 0 for row in range(len(new))]
        numbers = [
            number
            for start, ids, token in zip(starts, new, earlier, strict=True)
            for number in (start, max(0, len(ids) - 1), *ids, *[0] * (count - len(ids)), token)
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
        end, device = start + len(ids), features[0].device
        slots = torch.arange(start, end, device=device)[None]
        own = [rows[None, start:end] for rows in features]
        here = slice(row, row + 1)
        self._read(placed(ids, device)[None], slots, *own, width=end, rows=here)

    def _feed(
        self, states: States, ids: Ids, slots: Ids, width: int, rows: slice = slice(None)
    ) -> States:
        """Returns the network's states after ids; each sees all slots of its row up to its own."""
        sees = torch.arange(width, device=states.device) <= slots[:, None, :, None]
        self._cache.write_to(rows, slots, width)
        after: Tensor = self._network(states, ids, slots, sees, self._cache)
        return after

    @abstractmethod
    def _read(
        self, ids: Ids, slots: Ids, *features: States, width: int, rows: slice = slice(None)
    ) -> States:
        """Adds positions of texts to the cache, and returns a state at each.

        ids: the tokens after the positions. slots: these. width: how many slots the pass sees.
        """

    @abstractmethod
    def _program(
        self, depth: int, width: int, numbers: Int[Tensor, "texts count+3"], *features: States
    ) -> Any:
        """Returns what a `Program` does.

        depth: of the deepest draft. width: how many slots a pass sees.
        numbers: for each text, the slot of the first position that is fed, the index of the last,
            the tokens after them, and the one before the last token. What comes after the last
            position is overwritten before anything sees it.
        features: the target's, at these positions.
        """
