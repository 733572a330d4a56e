"""The network of DFlash and DFlash2: layers on states of the target, for a block of masks."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from outrider.contract.target import Target
from outrider.drafters.dflash.config import DFlashConfig
from outrider.drafters.dflash.corrector import Backbone, Block, Corrector
from outrider.drafters.dflash.published import EMBEDDING, MARKOV, PREFIXES
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import speculators, weights
from outrider.drafters.parts.networks.decoder_layers import DecoderLayer, LayerCaches, LayerParts
from outrider.drafters.parts.networks.features import state_names
from outrider.drafters.parts.networks.layer import (
    Ids,
    KeysAndValues,
    Known,
    LayerConfig,
    RMSNorm,
    Sees,
    State,
    States,
)
from outrider.drafters.parts.networks.trained import TrainedNetwork
from outrider.drafters.parts.networks.vocabulary import Vocabulary

TAPS = 2
"""How many tokens are mixed: each one and the one before it in the block."""

GROUP = 16
"""How many channels share a coefficient that depends on the token."""


@final
class LocalConvolution(nn.Module):
    """Causal convolutions of a block around a sublayer, as in DFlash2 of z-lab.

    The coefficient of a channel is learned, and a projection of the token's state adds to that of
    each group of channels. At first the sublayer is left as it is. The tensors are those of the
    speculators library. There is no paper.

    block: the number of tokens in a block; tokens of other blocks are not mixed.
    """

    def __init__(self, width: int, block: int) -> None:
        super().__init__()
        self._block, self._group = block, math.gcd(width, GROUP)
        kernel = torch.zeros(2, TAPS, width)
        kernel[:, 0] = 1.0
        self.base_kernel: nn.Parameter = nn.Parameter(kernel)
        groups = width // self._group
        self.kernel_projection: nn.Linear = nn.Linear(width, 2 * TAPS * groups, bias=False)
        nn.init.zeros_(self.kernel_projection.weight)

    def forward(self, x: States, sublayer: Callable[[Tensor], Tensor]) -> States:
        """Returns the sublayer's output between the two convolutions. x: its input."""
        added = self.kernel_projection(x).view(*x.shape[:2], 2, TAPS, -1)
        added = added.repeat_interleave(self._group, dim=-1)
        kernels = self.base_kernel + added
        first, last = kernels[:, :, 0], kernels[:, :, 1]
        return self._convolved(sublayer(self._convolved(x, first)), last)

    def _convolved(self, x: States, kernel: Float[Tensor, "batch tokens taps width"]) -> States:
        blocks = x.reshape(-1, self._block, x.shape[-1])
        before = nn.functional.pad(blocks, (0, 0, 1, 0))[:, :-1].reshape(x.shape)
        return x * kernel[:, :, 0] + before * kernel[:, :, 1]


@final
class ConvolvedLayer(LayerParts):
    """A layer of DFlash2: both of its parts stand between convolutions of each block of tokens."""

    def __init__(self, config: LayerConfig, block: int) -> None:
        super().__init__(config, normed=True)
        self.attention_conv: LocalConvolution = LocalConvolution(config.hidden_size, block)
        self.mlp_conv: LocalConvolution = LocalConvolution(config.hidden_size, block)

    def forward(self, x: States, positions: Ids, sees: Sees, cache: KeysAndValues) -> States:
        """Returns the layer's output for whole blocks."""

        def attended(inputs: Tensor) -> Tensor:
            out: Tensor = self.self_attn(inputs, positions, sees, cache)
            return out

        x = x + self.attention_conv(self.input_layernorm(x), attended)
        out: Tensor = x + self.mlp_conv(self.post_attention_layernorm(x), self.mlp)
        return out


HEAD = "lm_head.weight"
"""The tensor of a network's output matrix, if its checkpoint has one."""


@final
class DFlashNetwork(TrainedNetwork):
    """Runs a token and the masks after it through layers that attend to the target's states.

    The states of the text are fused, and become keys and values of every layer; the tokens of the
    block see all of them and each other (2602.06036, section 4). The tensors are those of z-lab's
    DFlash. Embeddings and head are the target's by default.

    config: Defaults to one layer with the sizes of the target's own; options: more of its fields.
    own: its own tables by their names in a checkpoint, HEAD and EMBEDDING. Defaults to none.
    """

    family = "dflash"

    def __init__(
        self,
        target: Target,
        vocabulary: Vocabulary,
        *,
        config: DFlashConfig | None = None,
        own: Mapping[str, Tensor] = MappingProxyType({}),
        **options: Any,
    ) -> None:
        super().__init__()
        config = config or DFlashConfig.like(target, **options)
        self.vocabulary = vocabulary
        self.config: DFlashConfig = config
        self.stages: int | None = config.drafted
        self.reads: tuple[str, ...] = state_names(config.layers)
        width, eps = config.sizes.hidden_size, config.sizes.rms_norm_eps
        self.fc: nn.Linear = nn.Linear(len(self.reads) * width, width, bias=False)
        self.hidden_norm: RMSNorm = RMSNorm(width, eps)
        self.layers: Any = nn.ModuleList(
            ConvolvedLayer(config.sizes, config.block)
            if config.convolved
            else DecoderLayer(config.sizes, normed=True)
            for _ in config.windows
        )
        self.norm: RMSNorm = RMSNorm(width, eps)
        self._own = own
        self._embedding = own.get(weights.EMBEDDING, weights.embedding(target)).detach()
        rows = vocabulary.rows(weights.head(target)).detach()
        self._head = weights.BorrowedHead(own.get(HEAD, rows).to(rows))
        self.borrowed_head: weights.BorrowedHead | None = self._head
        self.corrector: Corrector | None = None
        if config.corrector is not None:
            sizes = width, config.drafted, config.block
            backbone = Backbone(*sizes, vocabulary, self._embedding, eps)
            self.corrector = config.corrector.make(backbone)
        self.confidence: nn.Linear | None = None
        if config.confident is not None:
            rank = 0 if config.corrector is None else config.corrector.rank
            beside = {EMBEDDING: width, MARKOV: rank}.get(config.confident, 0)
            self.confidence = nn.Linear(width + beside, 1)

    def fused(self, features: Sequence[States]) -> States:
        """Returns what layers attend to at tokens of a text. features: in the order of `reads`."""
        out: Tensor = self.hidden_norm(self.fc(torch.cat(list(features), dim=-1)))
        return out

    def read(self, features: Sequence[States], positions: Ids, caches: LayerCaches) -> States:
        """Adds tokens of the text to the caches, and returns them fused. features: as there."""
        states = self.fused(features)
        for layer, cache in zip(self.layers, caches.of_layer, strict=True):
            layer.self_attn.add_to_cache(states, positions, cache)
        return states

    def forward(self, tokens: Ids, positions: Ids, sees: Tensor, caches: LayerCaches) -> States:
        """Returns the state at each token of some blocks, which predicts that token itself.

        sees: what each token attends to, the text first. Layers with a window narrow it, which is
            right for blocks that follow the whole text.
        """
        x = embedding(tokens, self._embedding) * self.config.scale
        windows = self.config.windows
        for layer, cache, window in zip(self.layers, caches.of_layer, windows, strict=True):
            near = sees
            if window is not None:
                near = sees & self.config.sees(window, positions, sees.shape[-1])
            x = layer(x, positions, near, cache)
        out: Tensor = self.norm(x)
        return out

    def block(
        self,
        states: Float[Tensor, "blocks rows w"],
        text: Float[Tensor, "blocks w"],
        earlier: Int[Tensor, "blocks"],
    ) -> Block:
        """Returns what a corrector is shown of some blocks.

        states: at all tokens of each block. text: the last token before it, fused.
        earlier: that token itself, or the block's first one if there is none.
        """
        start = self.config.block - self.config.drafted
        places = states[:, start:]
        before = earlier[:, None][:, :start]
        return Block(places, self.logits(places), text, states[:, :start], before)

    def logits(self, states: State) -> Known:
        """Returns the logits of the token at each state, over the network's vocabulary."""
        return self._head(states)

    def foreseen(self, states: State, before: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        """Returns the logits of how likely the token at each state is to be accepted.

        This is DSpark's confidence head (2607.05147). Published ones read the Markov head's row of
        the token before the state; those of `outrider train` read the target's embedding of it in
        its place, so that they go with every corrector.

        before: the token before each state.
        """
        assert self.confidence is not None, "the network has no confidence head"
        read = states
        if self.config.confident == EMBEDDING:
            read = torch.cat([states, embedding(before, self._embedding)], dim=-1)
        elif self.config.confident == MARKOV:
            assert self.corrector is not None, "only a Markov head has such rows"
            read = torch.cat([states, self.corrector.get_submodule("markov_w1")(before)], dim=-1)
        logits: Tensor = self.confidence(read)
        return logits[..., 0]

    @classmethod
    def read_checkpoint(cls, folder: Path, target: Target) -> Self:
        config = DFlashConfig.read(folder)
        speculators.require_fit(folder, config.sizes, config.mask, target)
        file, tensors, vocabulary = weights.read_tensors(folder, target.vocab_size)
        tensors = checkpoint.replace_prefixes(tensors, PREFIXES)
        words, head = weights.own_embedding(tensors, file, target), tensors.pop(HEAD, None)
        tables = {weights.EMBEDDING: words, HEAD: head}
        own = {name: rows for name, rows in tables.items() if rows is not None}
        return cls.with_tensors(tensors, file, target, vocabulary, config=config, own=own)

    def save_checkpoint(self, folder: Path, target: Target) -> None:
        """Writes the network in the layout of the speculators library, in half precision."""
        tensors = self.state_dict() | speculators.vocabulary_tensors(self.vocabulary)
        if self.vocabulary.ids is not None:  # other readers can't select rows of the target's head
            tensors[HEAD] = self._head.matrix
        tensors |= self._own
        config = self.config.stored(target, len(self.vocabulary))
        checkpoint.write_checkpoint(folder, tensors, config, torch.float16)
