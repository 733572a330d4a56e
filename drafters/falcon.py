"""Falcon: several tokens at each pass of one small layer, which sees all of the last few at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafter_parts import checkpoint, weights
from outrider.drafter_parts.layer import Attention, FeedForward, KeysAndValues, LayerConfig, RMSNorm
from outrider.drafter_parts.trees import parse
from outrider.drafter_parts.vocabulary import Vocabulary
from outrider.errors import ConfigError, is_int, require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.runtime.cached_model import HIDDEN

Memory = tuple[Tensor, Tensor]
"""What the LSTM carries on: [layers, batch, width] each."""


@final
class FalconNetwork(nn.Module):
    """Predicts, from the state at each place and the token after it, the state `block` places on.

    State and token are fused, read in order by an LSTM of two layers, and mixed by attention whose
    mask is relaxed: the places of a block see each other, later ones included (Falcon, AAAI 2025,
    doi 10.1609/aaai.v39i22.34566). The head and the embeddings are the target's.
    """

    def __init__(
        self, config: LayerConfig, target: Target, vocabulary: Vocabulary, block: int
    ) -> None:
        super().__init__()
        self.vocabulary, self.block = vocabulary, block
        width, eps = config.hidden_size, config.rms_norm_eps
        self.fc = nn.Linear(2 * width, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.input_layernorm = RMSNorm(width, eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(width, eps)
        self.mlp = FeedForward(config)
        self._embedding = weights.embedding(target).detach()
        self._head = weights.Head(vocabulary.rows(weights.head(target)).detach())

    def read(
        self,
        states: Float[Tensor, "batch tokens w"],
        tokens: Int[Tensor, "batch tokens"],
        memory: Memory | None,
    ) -> tuple[Float[Tensor, "batch tokens w"], Memory]:
        """Returns what the LSTM makes of places and the tokens after them, one after the other."""
        fused = self.fc(torch.cat([embedding(tokens, self._embedding), states], dim=-1))
        out, after = self.lstm(fused, memory)
        return fused + out, after

    def forward(
        self,
        x: Float[Tensor, "batch tokens w"],
        positions: Int[Tensor, "batch tokens"],
        reach: Bool[Tensor, "batch 1 tokens all"] | None,
        cache: KeysAndValues,
    ) -> Float[Tensor, "batch tokens w"]:
        """Returns the state `block` places after each; x: what `read` gave.

        reach: what each sees of all, the cached ones first; none for a chain.
        """
        x = x + self.self_attn(self.input_layernorm(x), positions, reach, cache)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out

    def logits(self, states: Float[Tensor, "*rows w"]) -> Float[Tensor, "*rows some"]:
        """Returns scores of what follows each state, over the network's vocabulary."""
        return self._head(states)


@dataclass(frozen=True, slots=True)
class _Known:
    """What was read of a text: the LSTM's memory, and its outputs at the last places."""

    tokens: Tokens
    memory: Memory | None
    last: Float[Tensor, "1 block w"]


@final
class Falcon(Drafter):
    """Drafts `block` tokens a pass (Falcon's semi-autoregressive block).

    Tokens of one block don't know what the others drew, as Medusa's heads; the next block does.

    path: a folder that `outrider train drafter=falcon` has written; "untrained" for random weights,
        with blocks of `block` tokens.
    block: of random weights alone; trained ones have their own.
    tree: a shape to fill, see `outrider.drafter_parts.trees`; a chain unless told.

    Raises `ConfigError` where the weights don't fit the target, naming the tensor.
    """

    needs = frozenset({"model", HIDDEN})

    def __init__(self, path: str, block: int = 2, tree: Any = None) -> None:
        good = is_int(block) and block >= 1
        require(good, "drafter.block", block, "a whole number of at least 1")
        self._path, self._block = path, block
        self._shape = parse(tree)
        self.kind = self._shape.kind
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is not target:
            self._network = read(self._path, target, self._block)
            self._target = target
            self._forget()

    def _forget(self) -> None:
        self._cache = KeysAndValues()
        self._known = _Known(Tokens([]), None, torch.empty(1, 0, 0))

    @torch.no_grad()
    def propose(self, context: Context, pen: Pen) -> None:
        network, block = self._network, self._network.block
        places = len(context.tokens) - 1
        if not pen.open or HIDDEN not in context.features or places < block:
            return
        self._catch_up(context.tokens, context.features[HIDDEN])
        known, length = self._known, len(self._cache)
        # The last places' keys are read again with their block, whose places all see each other.
        self._cache.crop(length - block)
        first = self._block_at(known.last, length - block)
        self._cache.crop(length)
        blocks: dict[tuple[int, ...], Tensor] = {(): first}

        def probs(_: Sequence[int], paths: Sequence[Sequence[int]]) -> Tensor:
            full = len(paths[0]) // block * block
            for path in paths:
                if tuple(path[:full]) not in blocks:
                    blocks[tuple(path[:full])] = self._further(blocks, path[:full], length)
            rows = [blocks[tuple(path[:full])][len(path) - full] for path in paths]
            return network.vocabulary.spread(network.logits(torch.stack(rows)))

        self._shape.grow(pen, probs)
        self._cache.crop(length)

    def _further(
        self, blocks: dict[tuple[int, ...], Tensor], path: Sequence[int], length: int
    ) -> Float[Tensor, "block w"]:
        """Returns the states that the network gives behind whole blocks of its own."""
        self._cache.crop(length)
        size, memory = self._network.block, self._known.memory
        states = torch.empty(0)
        for start in range(0, len(path), size):
            given = blocks[tuple(path[:start])]
            tokens = torch.tensor([path[start : start + size]], device=given.device)
            x, memory = self._network.read(given[None], tokens, memory)
            states = self._block_at(x, length + start)
        return states

    def _block_at(self, x: Float[Tensor, "1 block w"], start: int) -> Float[Tensor, "block w"]:
        positions = torch.arange(start, start + x.shape[1], device=x.device)[None]
        everything = torch.ones(
            1, 1, x.shape[1], len(self._cache) + x.shape[1], dtype=torch.bool, device=x.device
        )
        out: Tensor = self._network(x, positions, everything, self._cache)[0]
        return out

    def _catch_up(self, text: Tokens, states: Float[Tensor, "tokens w"]) -> None:
        """Reads what is new of the text; a text that is no continuation is read from its start."""
        if self._known.tokens.shared(text) < len(self._known.tokens):
            self._forget()
        known, places = max(0, len(self._known.tokens) - 1), len(text) - 1
        if known == places:
            return
        tokens = torch.tensor([text[known + 1 :]], device=states.device)
        x, memory = self._network.read(states[None, known:places], tokens, self._known.memory)
        positions = torch.arange(known, places, device=states.device)[None]
        self._network(x, positions, None, self._cache)
        before = self._known.last if known else x[:, :0]
        last = torch.cat([before, x], dim=1)[:, -self._network.block :]
        self._known = _Known(Tokens(text[:]), memory, last)


def fresh(target: Target, vocabulary: Vocabulary, block: int, seed: int = 0) -> FalconNetwork:
    """Returns a network that fits a target, with random weights."""
    sizes = LayerConfig.like(target.model.config.get_text_config())
    return weights.untrained(lambda: FalconNetwork(sizes, target, vocabulary, block), target, seed)


def read(path: str, target: Target, block: int) -> FalconNetwork:
    """Returns the network in a folder, for a target.

    Raises:
        ConfigError: there is none, or it does not fit.
    """
    if path == weights.UNTRAINED:
        return fresh(target, Vocabulary(target.vocab_size), block)
    place = weights.folder("falcon", path)
    config = checkpoint.read_config(place)
    weights.fits(place, config, target)
    file, tensors = checkpoint.tensors_in(place)
    size: Any = config.get("block")
    if not is_int(size):
        raise ConfigError(f"{place}: block={size!r} in config.json: expected a whole number")
    vocabulary = Vocabulary(target.vocab_size, tensors.pop("vocabulary", None))
    sizes = LayerConfig.read(config, target.model.config.get_text_config())
    return weights.filled(
        lambda: FalconNetwork(sizes, target, vocabulary, int(size)), target, tensors, file
    )


def save(network: FalconNetwork, folder: Path, config: dict[str, Any]) -> None:
    """Writes a network in half precision."""
    tensors = dict(network.state_dict())
    if network.vocabulary.ids is not None:
        tensors["vocabulary"] = network.vocabulary.ids
    checkpoint.save(folder, tensors, {**config, "block": network.block}, torch.float16)


@hookimpl
def register_drafters(register: Register) -> None:
    register("falcon", Falcon)
