"""Falcon: one small layer drafts a whole block of tokens in each pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.bounds import Count, checked
from outrider.contract.context import Context, Tokens
from outrider.contract.pen import Pen
from outrider_more_drafters.falcon_network import FalconNetwork, LSTMState
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.drafters.parts.networks.trained import TrainedDrafter
from outrider.targets.passes.cached_model import HIDDEN


@dataclass(frozen=True, slots=True)
class _ReadText:
    """A text that has been read: the LSTM's memory after it, and the layer's last inputs."""

    tokens: Tokens
    memory: LSTMState | None
    last: Float[Tensor, "1 block w"]


@final
class Falcon(TrainedDrafter[FalconNetwork]):
    """Drafts `block` tokens in each pass, with Falcon's semi-autoregressive block.

    As with Medusa's heads, the tokens of one block do not depend on what was drawn for the others;
    the next block depends on all of them.

    path: a folder that `outrider train drafter=falcon` has written; "untrained" for random weights.
    block: the size of blocks with random weights; trained weights have their own.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.

    Raises `ConfigError` if the weights don't fit the target; it names the tensor.
    """

    needs: frozenset[str] = frozenset({"model", HIDDEN})

    @checked("drafter")
    def __init__(self, path: str, block: Count = 2, tree: Any = None) -> None:
        super().__init__(FalconNetwork, path, tree, block=block)

    def _start(self) -> None:
        self._cache = KeysAndValues()
        self._read = _ReadText(Tokens([]), None, torch.empty(1, 0, 0))

    @torch.no_grad()
    def propose(self, context: Context, pen: Pen) -> None:
        network, block = self._network, self._network.block
        positions = len(context.tokens) - 1
        if not pen.open or HIDDEN not in context.features or positions < block:
            return
        self._catch_up(context.tokens, context.features[HIDDEN])
        length = len(self._cache)
        # The last positions are computed again as one block, since now they all see each other.
        self._cache.crop(length - block)
        first = self._block_states(self._read.last, length - block)
        self._cache.crop(length)
        blocks: dict[tuple[int, ...], Tensor] = {(): first}

        def next_logits(paths: Sequence[Sequence[int]]) -> Tensor:
            start = len(paths[0]) // block * block  # of the block that the next token is in
            for path in paths:
                if tuple(path[:start]) not in blocks:
                    blocks[tuple(path[:start])] = self._states_after(blocks, path[:start], length)
            rows = [blocks[tuple(path[:start])][len(path) - start] for path in paths]
            return self._spread(network.logits(torch.stack(rows)))

        self._shape.grow(pen, next_logits)
        self._cache.crop(length)

    def _states_after(
        self, blocks: dict[tuple[int, ...], Tensor], path: Sequence[int], length: int
    ) -> Float[Tensor, "block w"]:
        """Returns the states that follow a path of whole blocks.

        blocks: the states of the path's earlier blocks.
        length: the number of tokens of the text in the cache.
        """
        self._cache.crop(length)
        size, memory = self._network.block, self._read.memory
        states = torch.empty(0)
        for start in range(0, len(path), size):
            before = blocks[tuple(path[:start])]
            tokens = torch.tensor([path[start : start + size]], device=before.device)
            x, memory = self._network.fuse(before[None], tokens, memory)
            states = self._block_states(x, length + start)
        return states

    def _block_states(self, x: Float[Tensor, "1 block w"], start: int) -> Float[Tensor, "block w"]:
        """Returns the layer's output for a block of positions that all see each other."""
        positions = torch.arange(start, start + x.shape[1], device=x.device)[None]
        everything = torch.ones(
            1, 1, x.shape[1], len(self._cache) + x.shape[1], dtype=torch.bool, device=x.device
        )
        out: Tensor = self._network(x, positions, everything, self._cache)[0]
        return out

    def _catch_up(self, text: Tokens, states: Float[Tensor, "tokens w"]) -> None:
        """Reads what is new in a text, or all of it if it does not continue the last one."""
        cut = len(self._cache) < len(self._read.tokens) - 1  # by an interrupted draft
        if cut or self._read.tokens.shared(text) < len(self._read.tokens):
            self._start()
        known, positions = max(0, len(self._read.tokens) - 1), len(text) - 1
        self._cache.crop(known)  # an interrupted draft may have left more
        if known == positions:
            return
        tokens = torch.tensor([text[known + 1 :]], device=states.device)
        x, memory = self._network.fuse(states[None, known:positions], tokens, self._read.memory)
        numbers = torch.arange(known, positions, device=states.device)[None]
        self._network(x, numbers, None, self._cache)
        before = self._read.last if known else x[:, :0]
        last = torch.cat([before, x], dim=1)[:, -self._network.block :]
        self._read = _ReadText(Tokens(text[:]), memory, last)
