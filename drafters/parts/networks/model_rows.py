"""ModelRows: a model drafts for several texts, a pass for each token or level of all of them."""

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.base.pretrained import Model
from outrider.contract.context import Context, Tokens, beginnings
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen, draw_chains
from outrider.contract.programs import at_once, play_chains, positions_fed
from outrider.contract.tree_programs import play_nodes
from outrider.drafters.parts.networks.cached_text import fit, known_ids, own_size
from outrider.drafters.parts.trees.shapes import Shape
from outrider.targets.batches.batch_cache import BatchCache
from outrider.targets.batches.batch_rows import Held, PaddedBatch
from outrider.targets.batches.sessions import LONG, new_batch
from outrider.targets.passes.engine import engine_of
from outrider.targets.passes.masks import TreeSlots


@final
@dataclass(slots=True)
class _Row:
    """What the cache holds of a text.

    text: as it was when it was last drafted for. read: the tokens in the cache: those of the text,
        and what was drafted after it.
    """

    text: Tokens = field(default_factory=lambda: Tokens([]))
    read: list[int] = field(default_factory=list)


@final
class ModelRows(Drafter):
    """Drafts for any texts at once, each of which is found by what it holds; trees by programs.

    reach: how many tokens the model can draft after a text of some length.
    vocab_size: the width of all logits.
    mask: reads so many of it after each text, that it drafts at once; only if it is static.

    static: whether a draft of all texts is one recorded program.
    """

    autoregressive = True

    def __init__(
        self,
        model: Model,
        reach: Callable[[int], int],
        vocab_size: int,
        mask: int | None = None,
    ) -> None:
        self._model, self._reach, self._vocab_size = model, reach, vocab_size
        self._own_size, self._mask = own_size(self._model), mask
        self._programs = engine_of(model).programs(model)
        cache = new_batch(model, 1, 0) if self._programs else None
        self.static: bool = isinstance(cache, PaddedBatch) and bool(cache.static)
        self._cache: BatchCache | None = None
        self._rows: dict[int, _Row] = {}  # by number, as the cache knows it
        self._trees: tuple[Shape, Drafter] | None = None  # that it drafts, and what else can

    def fresh(self) -> "ModelRows":
        """Returns the same for other texts."""
        text = copy.copy(self)
        text._cache, text._rows = None, {}
        return text

    def for_trees(self, shape: Shape, alone: Drafter) -> "ModelRows | None":
        """Returns the same for trees of several texts; None if they are not recorded programs.

        alone: drafts those that can't be.
        """
        if not (self.static and shape.plays):
            return None
        text = self.fresh()
        text._trees = shape, alone
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        self.propose_batch([(context, pen)])

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        if self._trees is not None:
            shape, alone = self._trees
            if not self.grow(pairs, shape):
                alone.propose_batch(pairs)
            return
        for context, pen in pairs:
            pen.limit(self._reach(len(context.tokens)))
        if not any(pen.open for _, pen in pairs):
            return
        texts = [context.tokens for context, _ in pairs]
        cache, numbers = self._arranged(texts)
        self._cache = None  # an interruption leaves it in an unknown state
        going = [row for row, (_, pen) in enumerate(pairs) if pen.open]
        if self.static:
            self._play(cache, {numbers[row]: pairs[row] for row in going})
            self._cache = cache
            return
        unread = {numbers[row]: self._unread(cache, numbers[row], texts[row]) for row in going}

        def after(left: Sequence[int], tokens: Sequence[Any]) -> list[Tensor]:
            last = torch.cat(list(tokens)) if isinstance(tokens[0], Tensor) else None
            ids = tokens if last is None else [0] * len(tokens)
            drawn = {numbers[going[at]]: [token] for at, token in zip(left, ids, strict=True)}
            return self._feed(cache, drawn, last)

        draw_chains([pairs[row][1] for row in going], self._feed(cache, unread), after)
        for row in going:
            pen = pairs[row][1]
            self._rows[numbers[row]].read += [pen.token(node) for node in range(len(pen) - 1)]
        self._cache = cache

    def grow(self, pairs: Sequence[tuple[Context, Pen]], shape: Shape) -> bool:
        """Writes a tree for each pair by one program, and returns whether that is possible."""
        for context, pen in pairs if self.static else ():
            pen.limit(self._reach(len(context.tokens)))
        if not (self.static and any(pen.open for _, pen in pairs)):
            return self.static
        cache, numbers = self._arranged(texts := [context.tokens for context, _ in pairs])
        rows, count = cache.rows_of(numbers)
        held = dict(zip(rows, zip(numbers, texts, strict=True), strict=True))

        def play(
            pens: Mapping[int, Pen], key: Hashable, grown: Any, nodes: int, shares: Tensor
        ) -> list[Tensor]:
            self._cache, depth = None, next(iter(pens.values())).gamma
            own = dict(held[row] for row in pens)
            given, buffers, program = self._held(cache, own, depth, nodes)
            return play_nodes(
                self._programs, program, [given], buffers, key=key, grown=grown, shares=shares
            )

        pens = {row: pen for row, (_, pen) in zip(rows, pairs, strict=True) if pen.open}
        is_played = shape.play(pens, play, count)
        self._cache = cache
        return is_played

    @torch.no_grad()
    def _play(self, cache: Any, pairs: Mapping[int, tuple[Context, Pen]]) -> None:
        """Draws chains by one program over the last positions of texts. pairs: by number."""
        rows, count = cache.rows_of(pairs)
        pens = {row: pen for row, (_, pen) in zip(rows, pairs.values(), strict=True)}
        depth = max(pen.remaining for pen in pens.values())
        texts = {number: context.tokens for number, (context, _) in pairs.items()}
        given, buffers, program = self._held(cache, texts, depth, depth)
        play_chains(pens, self._programs, program, [given], buffers, rows=count)

    @torch.no_grad()
    def _held(self, cache: Any, texts: Mapping[int, Tokens], depth: int, room: int) -> Held:
        """Returns what the cache holds texts for, with a program in place of its passes.

        texts: by number. room: for how many tokens after each.
        """
        count, size = positions_fed(depth), self._vocab_size
        unread = {number: self._unread(cache, number, texts[number], count) for number in texts}
        new = {number: known_ids(ids, self._own_size) for number, ids in unread.items()}
        given, buffers, run = cache.hold(new, count, room)

        def program(fed: Tensor) -> Any:
            ids, slots = fed.chunk(2, dim=1)
            slot = slots[:, -1:]
            if self._mask is not None:
                more = slot + torch.arange(1, depth, device=fed.device)
                ids = torch.cat([ids, torch.full_like(more, self._mask)], dim=1)
                logits = run(ids, torch.cat([slots, more], dim=1), depth)
                return at_once(fit(logits, size).transpose(0, 1))

            nodes = TreeSlots(slot, buffers[0].shape[2])

            def after(tokens: Tensor, rows: Tensor | None = None) -> Tensor:
                nonlocal slot
                ids = known_ids(tokens, self._own_size)
                if rows is None:
                    slot = slot + 1
                    return fit(run(ids, slot, 1), size)
                nodes.add(rows)
                level = (nodes.slots, rows.shape[1], nodes.sees, nodes.positions)
                return fit(run(ids, *level), size)

            return fit(run(ids, slots, 1), size), after

        return given, buffers, program

    def _arranged(self, texts: Sequence[Tokens]) -> tuple[Any, list[int]]:
        """Returns the cache, and the number of each text there: a new one if it is not known."""
        if self._cache is None:
            self._rows = {number: _Row() for number in range(len(texts))}
            return new_batch(self._model, len(texts), max(map(len, texts))), list(self._rows)
        held = {number: row.text for number, row in self._rows.items()}
        numbers = [*held] if len(texts) == len(held) == 1 else beginnings(texts, held)
        self._rows = {number: self._rows[number] for number in numbers if number is not None}
        found = list[int]()
        for number in numbers:
            found.append(self._cache.join(self._rows) if number is None else number)
            self._rows.setdefault(found[-1], _Row())
        return self._cache, found

    def _unread(self, cache: BatchCache, number: int, text: Tokens, count: int = 1) -> list[int]:
        """Returns the tokens of a text that are not in the cache, which drops all others.

        count: how many there are, unless the text is shorter; 1 for at least one.
        """
        # The last one is always read again, since the cache holds no logits.
        row, start = self._rows[number], max(0, len(text) - count)
        shared = min(Tokens(row.read).shared(text), start)
        cache.retain_rows(number, len(row.read) - shared, ())
        if shared < start and (count > 1 or (not shared and len(text) > LONG)):
            cache.read(number, known_ids(text[shared:start], self._own_size), ())
            shared = start
        row.text, row.read = text, text[:]
        return text[shared:]

    def _feed(
        self,
        cache: BatchCache,
        new: Mapping[int, Sequence[int]],
        last: Int[Tensor, "texts"] | None = None,
    ) -> list[Float[Tensor, "vocab"]]:
        """Returns the logits after the new tokens of each text.

        last: the last token of each, where only the device knows it.
        """
        if last is not None:
            last = known_ids(last, self._own_size)
        tokens = [known_ids(ids, self._own_size) for ids in new.values()]
        passes = cache.feed(list(new), tokens, [Draft()] * len(new), (), last)
        return [fit(result.logits[0], self._vocab_size)[0] for result in passes]
