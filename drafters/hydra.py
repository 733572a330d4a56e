"""Extra heads like Medusa's, each of which reads the tokens that were drafted before it."""

from pathlib import Path
from typing import Any, Self, final

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from outrider.base.bounds import Count
from outrider.contract.target import Target
from outrider.drafters.medusa import Residual
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.entries import Entry, Table, only, read_entries
from outrider.drafters.parts.networks.layer import Known, State
from outrider.drafters.parts.networks.trained import StagedDrafter, StagedNetwork
from outrider.drafters.parts.networks.vocabulary import Vocabulary

TABLE: Table = {
    "hydra_num_heads": Entry("heads", Count),
    "hydra_num_layers": Entry("blocks", Count),
    **only(hydra_head_arch="mlp", grounded_heads=True, hidden_state_offset=0),
}
"""The entries of published configs."""


@final
class HydraNetwork(StagedNetwork):
    """The heads (2402.05109, section 3), with the published names for the tensors.

    A head reads the target's state and the embeddings of the newest token and of all tokens drafted
    before its own. Untrained heads predict what the target's own head does.

    heads: how many, and so how many tokens a draft can have.
    blocks: the number of blocks in each head.
    own: whether each head has an output matrix of its own; otherwise all share the target's.
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
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.stages: int | None = heads
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
        own = "hydra_lm_head.0.weight" in tensors
        return cls.with_tensors(tensors, file, target, vocabulary, own=own, **options)

    def save_checkpoint(self, folder: Path, target: Target) -> None:
        """Writes the heads with the published names, in half precision."""
        sizes = {"hydra_num_heads": self.stages, "hydra_num_layers": self._blocks}
        kind = {"hydra_head_arch": "mlp", "grounded_heads": True}
        self._write(folder, target, self.state_dict(), **sizes, **kind)


@final
class Hydra(StagedDrafter[HydraNetwork]):
    """Drafts on the target's last state, head by head (Hydra, 2402.05109).

    path: a folder that `outrider train` has written, or a published one whose heads are of the kind
        "mlp"; "untrained" for heads that repeat the target's.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.

    Raises `ConfigError` in `bind` if the weights don't fit the target; it names the tensor.
    """

    def __init__(self, path: str, tree: Any = None) -> None:
        super().__init__(HydraNetwork, path, tree)
