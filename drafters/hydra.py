"""Extra heads like Medusa's, each of which reads the tokens that were drafted before it."""

from itertools import product
from pathlib import Path
from typing import Annotated, Any, Self, final

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from outrider.base.bounds import Count
from outrider.base.expectations import OneOf
from outrider.contract.context import Tokens
from outrider.contract.target import Target
from outrider.drafters.medusa import Residual
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.decoder_layers import DecoderLayer
from outrider.drafters.parts.networks.entries import Entry, Table, only, read_entries
from outrider.drafters.parts.networks.layer import (
    KeysAndValues,
    Known,
    LayerConfig,
    RMSNorm,
    State,
    States,
)
from outrider.drafters.parts.networks.speculators import layer_sizes
from outrider.drafters.parts.networks.trained import StagedDrafter, StagedNetwork
from outrider.drafters.parts.networks.vocabulary import Vocabulary

TABLE: Table = {
    "hydra_num_heads": Entry("heads", Count),
    "hydra_num_layers": Entry("blocks", Count),
    "hydra_head_arch": Entry("kind", Annotated[str, OneOf(("mlp", "prefix-mlp"))], "mlp"),
    **only(grounded_heads=True, hidden_state_offset=0),
}
"""The entries of published configs."""

UNREAD = (
    "prefix_embeding_layer.embed_tokens.",
    "prefix_embeding_layer.layers.0.self_attn.rotary_emb.",
)
"""Tensors of Hydra++ that its layer does not read."""


@final
class Prefix(nn.Module):
    """Hydra++'s layer, through which the heads see all of the text (2402.05109, section 4)."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.layers: nn.ModuleList = nn.ModuleList([DecoderLayer(config)])
        self.norm: RMSNorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, states: States, cache: KeysAndValues) -> States:
        """Returns its states after the target's, and adds them to the cache."""
        positions = torch.arange(states.shape[1], device=states.device) + len(cache)
        out: Tensor = self.norm(self.layers[0](states, positions[None], None, cache))
        return out


@final
class HydraNetwork(StagedNetwork):
    """The heads (2402.05109, section 3), with the published names for the tensors.

    A head reads the target's state and the embeddings of the newest token and of all tokens drafted
    before its own. Untrained heads predict what the target's own head does.

    heads: how many, and so how many tokens a draft can have.
    blocks: the number of blocks in each head.
    own: whether each head has an output matrix of its own; otherwise all share the target's.
    kind: "prefix-mlp" for Hydra++, with a layer before the heads.
    """

    family = "hydra"

    def __init__(
        self,
        target: Target,
        vocabulary: Vocabulary,
        *,
        heads: int = 4,
        blocks: int = 1,
        own: bool = False,
        kind: str = "mlp",
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.stages: int | None = heads
        self.kind: str = kind
        self._blocks = blocks
        self._embed(target)
        self._shared_head = weights.BorrowedHead.of(target, vocabulary)
        self.borrowed_head: weights.BorrowedHead | None = None if own else self._shared_head
        rows, width = self._shared_head.matrix.shape
        self.hydra_mlp: nn.ModuleList = nn.ModuleList()
        self.hydra_lm_head: nn.ModuleList = nn.ModuleList()
        for head in range(heads):
            stack = [Residual(width, head + 2), *(Residual(width) for _ in range(blocks - 1))]
            self.hydra_mlp.append(nn.Sequential(*stack))
            if own:
                matrix = nn.Linear(width, rows)
                matrix.weight = nn.Parameter(self._shared_head.matrix.clone())
                nn.init.zeros_(matrix.bias)
                self.hydra_lm_head.append(matrix)
        if kind != "mlp":
            sizes = layer_sizes(target.model.config.get_text_config())
            self.prefix_embeding_layer: nn.Module = Prefix(sizes)

    def forward(self, stage: int, state: State, tokens: Int[Tensor, "*batch"]) -> State:
        """Returns the state and the embeddings of all tokens since, side by side."""
        return torch.cat([state, embedding(tokens, self._embedding)], dim=-1)

    def logits(self, stage: int, state: State) -> Known:
        hidden = self.hydra_mlp[stage](state)
        head = self.hydra_lm_head[stage] if len(self.hydra_lm_head) else self._shared_head
        logits: Tensor = head(hidden)
        return logits

    @classmethod
    def read_checkpoint(cls, folder: Path, target: Target) -> Self:
        config = weights.read_config(folder, target)
        options = read_entries(folder, config, cls.family, TABLE)
        file, tensors, vocabulary = weights.read_tensors(folder, target.vocab_size)
        if options["kind"] != "mlp":
            names = {new: own for own, new in _names(options["heads"], options["blocks"]).items()}
            tensors = checkpoint.replace_prefixes(tensors, names)
            for name in [name for name in tensors if name.startswith(UNREAD)]:
                del tensors[name]
        own = "hydra_lm_head.0.weight" in tensors
        return cls.with_tensors(tensors, file, target, vocabulary, own=own, **options)

    def save_checkpoint(self, folder: Path, target: Target) -> None:
        """Writes the heads with the published names, in half precision."""
        heads, tensors = len(self.hydra_mlp), self.state_dict()
        if self.kind != "mlp":
            tensors = checkpoint.replace_prefixes(tensors, _names(heads, self._blocks))
        sizes = {"hydra_num_heads": heads, "hydra_num_layers": self._blocks}
        kind = {"hydra_head_arch": self.kind, "grounded_heads": True}
        self._write(folder, target, tensors, **sizes, **kind)


def _names(heads: int, blocks: int) -> dict[str, str]:
    """Returns the beginnings of names, and those of Hydra++, where dropouts stand in between."""
    names = {f"hydra_lm_head.{head}.": f"hydra_lm_head.{head}.1." for head in range(heads)}
    for head, block in product(range(heads), range(blocks)):
        names[f"hydra_mlp.{head}.{block}."] = f"hydra_mlp.{head}.{2 * block + 1}."
    return names


@final
class Hydra(StagedDrafter[HydraNetwork]):
    """Drafts on the target's last state, head by head (Hydra and Hydra++, 2402.05109).

    path: a folder that `outrider train` has written, or a published one whose heads are of the kind
        "mlp" or "prefix-mlp"; "untrained" for heads that repeat the target's.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.

    Raises `ConfigError` in `bind` if the weights don't fit the target; it names the tensor.
    """

    def __init__(self, path: str, tree: Any = None) -> None:
        super().__init__(HydraNetwork, path, tree)

    def _start(self) -> None:
        self._cache, self._text = KeysAndValues(), Tokens([])

    @property
    def in_rows(self) -> bool:
        return self._network.kind == "mlp" and super().in_rows  # the layer reads one text

    def _last_state(self, text: Tokens, states: States) -> State:
        if self._network.kind == "mlp":
            return super()._last_state(text, states)
        count = len(text) - 1
        self._cache.crop(min(self._text.shared(text), count - 1))
        self._text = Tokens([])  # an interrupted pass leaves the cache in an unknown state
        new = states[len(self._cache) : count][None]
        after: Tensor = self._network.prefix_embeding_layer(new, self._cache)
        self._text = Tokens(text[:])
        return after[0, -1]
