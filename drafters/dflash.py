"""DFlash: a few layers on several states of the target fill a block of masks in one pass."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from outrider.base.bounds import AtLeast, Share, checked
from outrider.base.errors import ConfigError, require
from outrider.contract.context import Context, Tokens
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import speculators, weights
from outrider.drafters.parts.networks.correctors.corrector import (
    Backbone,
    Block,
    Corrector,
    CorrectorConfig,
)
from outrider.drafters.parts.networks.decoder_layers import (
    ConvolvedLayer,
    DecoderLayer,
    LayerCaches,
)
from outrider.drafters.parts.networks.dflash_config import DFlashConfig
from outrider.drafters.parts.networks.features import LOWEST, state_names
from outrider.drafters.parts.networks.layer import RMSNorm
from outrider.drafters.parts.networks.published_correctors import own_names
from outrider.drafters.parts.networks.trained import TrainedDrafter, TrainedNetwork
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.drafters.parts.trees.shapes import NextLogits


@final
class DFlashNetwork(TrainedNetwork):
    """Runs a token and the masks after it through layers that attend to the target's states.

    The states of the text are fused, and become keys and values of every layer; the tokens of the
    block see all of them and each other (2602.06036, section 4). The tensors are those of z-lab's
    DFlash. The embeddings are the target's, and so is the head by default.

    block, corrector, confident: the size of blocks, the kind of corrector, and whether it has a
        confidence head, if there is no config.
    config: Defaults to one layer with the sizes of the target's own.
    head: an output matrix for its vocabulary. Defaults to the target's.
    """

    family = "dflash"

    def __init__(
        self,
        target: Target,
        vocabulary: Vocabulary,
        *,
        block: int = 8,
        corrector: str | None = None,
        confident: bool = False,
        config: DFlashConfig | None = None,
        head: Float[Tensor, "known width"] | None = None,
    ) -> None:
        super().__init__()
        if config is None:
            kind = CorrectorConfig.of(corrector)
            config = DFlashConfig.like(target, block=block, corrector=kind, confident=confident)
        self.vocabulary = vocabulary
        self.config: DFlashConfig = config
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
        self._embedding = weights.embedding(target).detach()
        rows = vocabulary.rows(weights.head(target)).detach()
        self._head = weights.BorrowedHead(rows if head is None else head.to(rows))
        self.borrowed_head: weights.BorrowedHead | None = self._head
        self.corrector: Corrector | None = None
        if config.corrector is not None:
            backbone = Backbone(width, config.drafted, vocabulary, self._embedding)
            self.corrector = config.corrector.make(backbone)
        self.confidence: nn.Linear | None = nn.Linear(2 * width, 1) if config.confident else None

    def fused(
        self, features: Sequence[Float[Tensor, "batch tokens width"]]
    ) -> Float[Tensor, "batch tokens w"]:
        """Returns what the layers attend to at some tokens of the text.

        features: the target's at these tokens, in the order of `reads`.
        """
        out: Tensor = self.hidden_norm(self.fc(torch.cat(list(features), dim=-1)))
        return out

    def read(
        self,
        features: Sequence[Float[Tensor, "batch tokens width"]],
        positions: Int[Tensor, "batch tokens"],
        caches: LayerCaches,
    ) -> Float[Tensor, "batch tokens w"]:
        """Adds tokens of the text to the caches, and returns them fused. features: as there."""
        states = self.fused(features)
        for layer, cache in zip(self.layers, caches.of_layer, strict=True):
            layer.self_attn.add_to_cache(states, positions, cache)
        return states

    def forward(
        self,
        tokens: Int[Tensor, "batch tokens"],
        positions: Int[Tensor, "batch tokens"],
        sees: Bool[Tensor, "batch 1 tokens all"],
        caches: LayerCaches,
    ) -> Float[Tensor, "batch tokens w"]:
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

    def logits(self, states: Float[Tensor, "*batch w"]) -> Float[Tensor, "*batch known"]:
        """Returns the logits of the token at each state, over the network's vocabulary."""
        return self._head(states)

    def foreseen(
        self, states: Float[Tensor, "*batch w"], before: Int[Tensor, "*batch"]
    ) -> Float[Tensor, "*batch"]:
        """Returns the logits of how likely the token at each state is to be accepted.

        This is DSpark's confidence head (2607.05147), with the target's embedding of the token
        before the state in place of a Markov head's, so that it goes with every corrector.

        before: the token before each state.
        """
        assert self.confidence is not None, "the network has no confidence head"
        read = torch.cat([states, embedding(before, self._embedding)], dim=-1)
        logits: Tensor = self.confidence(read)
        return logits[..., 0]

    @classmethod
    def read_checkpoint(cls, folder: Path, target: Target) -> Self:
        config = DFlashConfig.read(folder)
        speculators.require_fit(folder, config.sizes, config.mask, target)
        file, tensors, vocabulary = weights.read_tensors(
            folder, target.vocab_size, speculators.take_vocabulary
        )
        tensors = own_names(tensors)
        tensors.pop("embed_tokens.weight", None)  # a copy of the target's
        head = tensors.pop("lm_head.weight", None)
        return cls.with_tensors(tensors, file, target, vocabulary, config=config, head=head)

    def save_checkpoint(self, folder: Path, target: Target) -> None:
        """Writes the network in the layout of the speculators library, in half precision."""
        tensors = self.state_dict() | speculators.vocabulary_tensors(self.vocabulary)
        if self.vocabulary.ids is not None:  # other readers can't select rows of the target's head
            tensors["lm_head.weight"] = self._head.matrix
        config = self.config.stored(target, len(self.vocabulary))
        checkpoint.write_checkpoint(folder, tensors, config, torch.float16)


@final
class DFlash(TrainedDrafter[DFlashNetwork]):
    """Drafts a block of tokens in one pass on states of the target (DFlash, 2602.06036).

    A pass always has a whole block, so the first tokens are the same for every gamma; a block of 8
    drafts up to 7. No token depends on those drawn before it in the draft, unless the network has a
    corrector: then each is drawn from the distribution that is corrected for those before it.

    path: a folder that `outrider train` has written, one of z-lab's DFlash, or a dflash of the
        speculators library; "untrained" for random weights.
    block: the size of blocks with random weights; trained weights have their own.
    corrector: likewise, what makes the tokens of a block depend on each other: a name in
        `outrider.drafters.parts.networks.correctors.corrector.CORRECTORS`. Defaults to nothing.
    confidence: how likely a token and all those before it must be to be accepted for the draft to
        have it, as far as the network's confidence head can tell. Defaults to no such limit. The
        head foresees a token before it is drawn, from the text and from those already drawn.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.

    Raises `ConfigError` if the weights don't fit the target; it names the tensor. Likewise if there
    is a limit, and a tree or no confidence head.
    """

    @checked("drafter")
    def __init__(
        self,
        path: str,
        block: Annotated[int, AtLeast(2)] = 8,
        corrector: str | None = None,
        confidence: Share | None = None,
        tree: Any = None,
    ) -> None:
        CorrectorConfig.of(corrector)  # refuses an unknown one
        require(confidence is None or tree is None, "drafter.tree", tree, "none with a confidence")
        self._confidence = confidence
        options = {"block": block, "corrector": corrector, "confident": confidence is not None}
        super().__init__(DFlashNetwork, path, tree, **options)
        layers = LOWEST
        if path != weights.UNTRAINED:
            layers = DFlashConfig.read(weights.folder("dflash", path)).layers
        self.needs: frozenset[str] = frozenset({"model", *state_names(layers)})

    def _start(self) -> None:
        if self._confidence is not None and self._network.confidence is None:
            raise ConfigError(
                f"drafter.confidence={self._confidence}: expected null, since the network at"
                f" {self._path} has no confidence head"
            )
        self._caches = LayerCaches(len(self._network.layers))
        self._text = Tokens([])

    @torch.no_grad()
    def propose(self, context: Context, pen: Pen) -> None:
        network, config = self._network, self._network.config
        features = [context.features[name] for name in network.reads if name in context.features]
        pen.limit(config.drafted)
        if not pen.open or len(features) < len(network.reads):
            return  # the target has not read the prompt yet
        self._catch_up(context.tokens, features)
        known, size = len(context.tokens) - 1, config.block
        device = features[0].device
        block = [context.tokens[-1], *[config.mask] * (size - 1)]
        tokens = torch.tensor([block], device=device)
        positions = torch.arange(known, known + size, device=device)[None]
        sees = torch.ones(1, 1, size, known + size, dtype=torch.bool, device=device)
        if config.causal:
            sees = sees.tril(known)
        states = network(tokens, positions, sees, self._caches)
        self._caches.crop(known)
        places = states[:, 0 if config.from_anchor else 1 :]
        # At the start of a text, nothing has been read before its last token.
        text = [rows[None, max(known - 1, 0) : known] for rows in features]
        next_logits = self._next_logits(block[0], places, text, pen.gamma)
        if self._confidence is None:
            self._shape.grow(pen, next_logits)
            return
        path, survival = [block[0]], 1.0
        while pen.open:
            before = torch.tensor([path[-1]], device=device)
            survival *= float(network.foreseen(places[:, len(path) - 1], before).sigmoid())
            if survival < self._confidence:
                return
            path.append(pen.draw(next_logits([path[1:]])[0]))

    def _next_logits(
        self,
        token: int,
        places: Float[Tensor, "1 places w"],
        text: Sequence[Float[Tensor, "1 token width"]],
        count: int,
    ) -> NextLogits:
        """Returns what maps the paths of a draft to the logits of the next token.

        token: the last one of the text. places: the states that predict.
        text: the target's states at the token before, if there is one.
        count: how many places are needed, if none depends on the others.
        """
        network = self._network
        if network.corrector is None:
            logits = self._spread(network.logits(places[0, :count]))
            return lambda paths: logits[len(paths[0])].expand(len(paths), -1)
        block = Block(places, network.logits(places), network.fused(text).sum(1))
        correction = network.corrector(block)

        def next_logits(paths: Sequence[Sequence[int]]) -> Tensor:
            before = torch.tensor([[token, *path] for path in paths], device=places.device)
            return self._spread(correction(before, before.shape[1] - 1)[:, 0])

        return next_logits

    def _catch_up(self, text: Tokens, features: Sequence[Float[Tensor, "tokens width"]]) -> None:
        """Reads what is new in a text, except its last token."""
        count = len(text) - 1
        known = min(self._text.shared(text), count, len(self._caches))
        self._caches.crop(known)
        if known == count:
            return
        self._text = Tokens([])  # an interrupted pass leaves the caches in an unknown state
        positions = torch.arange(known, count, device=features[0].device)[None]
        self._network.read([rows[None, known:count] for rows in features], positions, self._caches)
        self._text = Tokens(text[:count])
