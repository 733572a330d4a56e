"""One small recurrent head, which reads each drafted token and predicts the next."""

from pathlib import Path
from typing import Any, Self, final

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.functional import embedding, silu

from outrider.base.bounds import Count
from outrider.contract.target import Target
from outrider.drafters.medusa import Residual
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.entries import Entry, Table, read_entries
from outrider.drafters.parts.networks.layer import Known, State
from outrider.drafters.parts.networks.trained import StagedDrafter, StagedNetwork
from outrider.drafters.parts.networks.vocabulary import Vocabulary

TABLE: Table = {
    "num_draft_layers": Entry("blocks", Count),
    "exit_dim": Entry("inner", Count),
    "rnn": Entry("recurrent", bool, False),
}
"""The entries of Apple's configs."""


@final
class ReDrafterNetwork(StagedNetwork):
    """The head (2403.09919, section 3), with Apple's names for the tensors.

    The recurrent state is s = SiLU(W embedding(token) + U s + b), or s + embedding(token) without
    the matrices. The head reads it beside the target's state, which stays the same.

    blocks: the number of residual blocks below the output matrix.
    recurrent: whether the state has the matrices W and U.
    own: whether there is an output matrix; otherwise it is the target's.
    inner: the width of the blocks. Defaults to the target's, and has to be that without `own`.
    """

    family = "redrafter"

    def __init__(
        self,
        target: Target,
        vocabulary: Vocabulary,
        *,
        blocks: int = 2,
        recurrent: bool = True,
        own: bool = False,
        inner: int | None = None,
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self._blocks = blocks
        self._embed(target)
        self._shared_head = weights.BorrowedHead.of(target, vocabulary)
        self.borrowed_head: weights.BorrowedHead | None = None if own else self._shared_head
        rows, self._width = self._shared_head.matrix.shape
        self._inner = inner = inner if inner and own else self._width
        is_wide = inner == 2 * self._width
        self.input_proj: nn.Module = nn.Identity() if is_wide else nn.Linear(2 * self._width, inner)
        stack: list[nn.Module] = [Residual(inner) for _ in range(blocks)]
        self.lm_head: nn.Sequential = nn.Sequential(
            *stack, *([nn.Linear(inner, rows, bias=False)] if own else [])
        )
        self.rnn: bool = recurrent
        if recurrent:
            self.rnn_u: nn.Linear = nn.Linear(self._width, self._width)
            self.rnn_w: nn.Linear = nn.Linear(self._width, self._width, bias=False)

    def start(self, state: State) -> State:
        """Returns the target's state, followed by a recurrent state of zeros."""
        return torch.cat([state, torch.zeros_like(state)], dim=-1)

    def forward(self, stage: int, state: State, tokens: Int[Tensor, "*batch"]) -> State:
        target_state, recurrent = torch.split(state, self._width, dim=-1)
        word = embedding(tokens, self._embedding)
        mixed = self.rnn_w(word) + self.rnn_u(recurrent) if self.rnn else word + recurrent
        return torch.cat([target_state, silu(mixed) if self.rnn else mixed], dim=-1)

    def logits(self, stage: int, state: State) -> Known:
        logits: Tensor = self.lm_head(self.input_proj(state))
        return logits if self.borrowed_head is None else self.borrowed_head(logits)

    @classmethod
    def read_checkpoint(cls, folder: Path, target: Target) -> Self:
        config = weights.read_config(folder, target)
        options = read_entries(folder, config, cls.family, TABLE)
        file, tensors, vocabulary = weights.read_tensors(folder, target.vocab_size)
        own = f"lm_head.{options['blocks']}.weight" in tensors
        return cls.with_tensors(tensors, file, target, vocabulary, own=own, **options)

    def save_checkpoint(self, folder: Path, target: Target) -> None:
        """Writes the head as Apple names it, in half precision."""
        sizes = {"num_draft_layers": self._blocks, "exit_dim": self._inner}
        kind = "recurrent_drafting_drafter"
        self._write(folder, target, self.state_dict(), **sizes, rnn=self.rnn, model_type=kind)


@final
class ReDrafter(StagedDrafter[ReDrafterNetwork]):
    """Drafts on the target's last state, with a recurrent head (2403.09919).

    A draft may have any length. The paper's beam search of width 8 is the tree "dynamic:8".

    path: a folder that `outrider train` has written, or one of Apple's; "untrained" for random
        weights.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.
    """

    def __init__(self, path: str, tree: Any = None) -> None:
        super().__init__(ReDrafterNetwork, path, tree)
