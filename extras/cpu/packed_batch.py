"""A batch that the native library reads: sequences side by side, with prefixes in common."""

from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.base.pretrained import Model
from outrider.contract.context import Tokens
from outrider.contract.draft import Draft
from outrider.contract.judge import Judge
from outrider.extras.cpu.native_pass import Packing, native_pass
from outrider.targets.batches.batch_cache import BatchCache, NewTokens, part_of
from outrider.targets.batches.batch_rows import BatchRows
from outrider.targets.passes.engine import run_pass
from outrider.targets.passes.masks import additive_mask, tree_mask
from outrider.targets.passes.pass_input import PART, Pass, PassInput


@final
class SharedPrefixes:
    """For each row of a cache, the row that owns its first tokens, and how many of them.

    A row that owns all of its tokens has a count of 0. A row whose prefix others share owns its
    tokens, so there are no chains of owners.
    """

    def __init__(self, rows: int) -> None:
        self._owners: list[int] = list(range(rows))
        self._counts: list[int] = [0] * rows

    def add_row(self) -> None:
        """Adds a row, which owns its tokens."""
        self._owners.append(len(self._owners))
        self._counts.append(0)

    def share(self, row: int, source: int, count: int) -> tuple[int, int] | None:
        """Has a row begin with the first `count` tokens of another one.

        Returns:
            The owner of `source`'s prefix and the number of tokens that `source` has to copy from
            it, if it shares fewer than `count` itself and so becomes the row's owner.
        """
        if self._counts[source] >= count:
            self._owners[row], self._counts[row] = self._owners[source], count
            return None
        self._owners[row], self._counts[row] = source, count
        return self.leave(source)

    def leave(self, row: int) -> tuple[int, int] | None:
        """Has a row own all of its tokens.

        Returns:
            The owner so far and the number of tokens to copy from it, if there are any.
        """
        count, self._counts[row] = self._counts[row], 0
        return (self._owners[row], count) if count else None

    def free(self, row: int) -> tuple[int, int] | None:
        """Prepares a row for another sequence. If others share its prefix, one becomes the owner.

        Returns:
            The new owner, and the number of tokens to copy there, if there are any.
        """
        self._counts[row] = 0
        sharing = [other for other, count in enumerate(self._counts) if count]
        heirs = [heir for heir in sharing if self._owners[heir] == row]
        if not heirs:
            return None
        first = max(heirs, key=self._counts.__getitem__)
        count, self._counts[first] = self._counts[first], 0
        for heir in heirs:
            self._owners[heir] = first
        return first, count

    def table(self) -> Int[Tensor, "2 rows"] | None:
        """Returns the owners and counts of all rows, or None if all own their tokens."""
        return torch.tensor([self._owners, self._counts]) if any(self._counts) else None


SHARED = 8
"""The fewest tokens that a prompt shares with another one's; reading fewer takes no longer."""


@final
class PackedBatch(BatchCache):
    """A batch in which parts of prompts wait for the next pass.

    What two prompts begin with is read once, and kept in one row.

    capacity: how many tokens to make room for at first, such as those of the longest prompt.
    """

    def __init__(self, model: Model, sequences: int, capacity: int = 0) -> None:
        self.model = model
        self._rows = BatchRows(sequences, capacity)
        self._prompts: list[list[int]] = [[] for _ in range(sequences)]  # as far as they are read
        self._waiting: list[NewTokens] = []  # parts of prompts, which count as read
        self._prefixes = SharedPrefixes(sequences)

    def join(self, active: Collection[int]) -> int:
        row = self._rows.free(active)
        if row is None:
            row = self._rows.add()
            self._prompts.append([])
            self._prefixes.add_row()
        if heir := self._prefixes.free(row):
            self._rows.copy(row, heir[0], heir[1])
        self._prompts[row] = []
        return self._rows.begin(row)

    def read(
        self, number: int, tokens: Sequence[int], states: Collection[int]
    ) -> dict[int, Float[Tensor, "tokens width"]]:
        row, lengths = self._rows.row(number), self._rows.lengths
        if states:
            if owner := self._prefixes.leave(row):
                self._rows.copy(owner[0], row, owner[1])
            inputs = PassInput(torch.tensor([list(tokens)]), 1, states=states)
            result = run_pass(self.model, self._rows.alone(row), inputs)
            lengths[row] += len(tokens)
            return {state: result.states[state][0] for state in states}
        shared = self._share(row, tokens)
        self._prompts[row] += tokens
        if shared < len(tokens):
            self._waiting.append(NewTokens(row, tokens[shared:], Draft(), lengths[row]))
            lengths[row] += len(tokens) - shared
        if sum(map(len, self._waiting)) >= PART:
            self._read_waiting()
        return {}

    def _share(self, row: int, tokens: Sequence[int]) -> int:
        """Takes the first tokens of a part from a row that has them, and returns how many."""
        known = self._prompts[row]
        wanted = Tokens([*known, *tokens])
        counts = [
            wanted.shared(Tokens(other)) if other_row != row else 0
            for other_row, other in enumerate(self._prompts)
        ]
        source = counts.index(max(counts))
        count = counts[source] - len(known)
        if count < SHARED:
            return 0
        if any(part.row == source for part in self._waiting):
            self._read_waiting()
        if owner := self._prefixes.share(row, source, counts[source]):
            self._rows.copy(owner[0], source, owner[1])
        self._rows.lengths[row] += count
        return count

    def _read_waiting(self) -> None:
        """Reads the parts of prompts that wait, in a separate pass."""
        waiting, self._waiting = self._waiting, []
        self._run(waiting, 0, ())

    def feed(
        self,
        numbers: Sequence[int],
        pending: Sequence[Sequence[int]],
        drafts: Sequence[Draft],
        states: Collection[int],
        last: Int[Tensor, "texts"] | None = None,
        *,
        judges: Sequence[Judge | None] = (),
    ) -> list[Pass]:
        assert last is None, "a processor's tokens are known to the host"
        new = self._rows.append(numbers, pending, drafts)
        waiting, self._waiting = self._waiting, []
        missing = sum(map(len, waiting))
        result = self._run([*waiting, *new], sum(map(len, new)), states)
        ends = accumulate(map(len, new), initial=missing)
        return [
            part_of(result, 0, part, end + len(part), missing)
            for part, end in zip(new, ends, strict=False)
        ]

    def retain_rows(self, number: int, count: int, rows: Sequence[int]) -> None:
        self._rows.retain(number, count, rows)

    @torch.no_grad()
    def _run(self, new: Sequence[NewTokens], rows: int, states: Collection[int]) -> Pass:
        """Runs a pass over the tokens of some sequences, one sequence after the other.

        rows: how many of the last tokens to return logits for.
        """
        width = self._rows.slots.width = max(part.cached + len(part) for part in new)
        ids = torch.tensor([[token for part in new for token in part.tokens]])
        owners = [part.row for part in new for _ in range(len(part))]
        slots = [part.cached + index for part in new for index in range(len(part))]
        places = torch.tensor([owners, slots])
        mask, positions = None, places[1:]
        if not all(part.draft.is_chain for part in new):
            mask, positions = _trees(new, width)
        inputs = PassInput(ids, rows, mask, positions, states)
        packing = Packing(places, self._prefixes.table())
        return native_pass(self.model, self._rows.cache, inputs, packing)


def _trees(new: Sequence[NewTokens], width: int) -> tuple[Tensor, Tensor]:
    """Returns the mask and the positions of trees side by side, in the form of `PassInput`.

    width: how far into the cache any of the tokens sees.
    """
    total = sum(map(len, new))
    sees = torch.zeros(total, width, dtype=torch.bool)
    positions = torch.empty(1, total, dtype=torch.long)
    start = 0
    for part in new:
        end, last = start + len(part), part.cached + len(part)
        tree = tree_mask(part.draft.parents, pending=len(part.pending), cached=part.cached)
        positions[0, start:end] = tree.positions
        sees[start:end, :last] = tree.sees
        start = end
    return additive_mask(sees, torch.float32)[None, None], positions
