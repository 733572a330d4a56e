"""Extra heads on the target's last state, one for each position ahead."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import relu, silu

from outrider.base.bounds import Count
from outrider.base.expectations import OneOf
from outrider.contract.pen import Pen
from outrider.contract.programs import at_once
from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.entries import Entry, Table, read_entries
from outrider.drafters.parts.networks.layer import State
from outrider.drafters.parts.networks.trained import StateDrafter, TrainedNetwork
from outrider.drafters.parts.networks.vocabulary import Vocabulary


@final
class Residual(nn.Module):
    """Medusa's and Hydra's block: R x + SiLU(W x + b), as wide as one of the vectors side by side.

    It begins as the identity on the first vector, which R always is for a single one.
    """

    def __init__(self, width: int, vectors: int = 1) -> None:
        super().__init__()
        self.linear: nn.Linear = nn.Linear(vectors * width, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.res_connection: nn.Module = nn.Identity()
        if vectors > 1:
            self.res_connection = residual = nn.Linear(vectors * width, width)
            nn.init.eye_(residual.weight)
            nn.init.zeros_(residual.bias)

    def forward(self, x: State) -> State:
        out: Tensor = self.res_connection(x) + silu(self.linear(x))
        return out


@final
class Hidden(nn.Module):
    """Blockwise parallel decoding's block: a hidden layer, a residual (1811.03115, section 4)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up: nn.Linear = nn.Linear(width, 2 * width)
        self.down: nn.Linear = nn.Linear(2 * width, width)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, x: State) -> State:
        out: Tensor = x + self.down(relu(self.up(x)))
        return out


BLOCKS: dict[str, type[nn.Module]] = {"residual": Residual, "hidden": Hidden}

TABLE: Table = {
    "medusa_num_heads": Entry("heads", Count),
    "medusa_num_layers": Entry("blocks", Count),
    "block": Entry("kind", Annotated[str, OneOf(tuple(BLOCKS))], "residual"),
}
"""The entries of published configs."""


@final
class MedusaNetwork(TrainedNetwork):
    """The heads (2401.10774, section 2.1.1), with FasterDecoding's names for the tensors.

    Untrained heads predict what the target's own head does.

    heads: how many, and so how many tokens a draft can have.
    blocks: the number of blocks in each head.
    kind: the kind of these blocks, a name in BLOCKS.
    own: whether each head has an output matrix of its own; otherwise all share the target's.
    """

    family = "medusa"

    def __init__(
        self,
        target: Target,
        vocabulary: Vocabulary,
        *,
        heads: int = 4,
        blocks: int = 1,
        kind: str = "residual",
        own: bool = False,
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.stages: int | None = heads
        self._shared_head = weights.BorrowedHead.of(target, vocabulary)
        self.borrowed_head: weights.BorrowedHead | None = None if own else self._shared_head
        width = self.shared.shape[1]
        self._blocks, self._kind = blocks, kind
        self.heads: nn.ModuleList = nn.ModuleList()
        for _ in range(heads):
            stack: list[nn.Module] = [BLOCKS[kind](width) for _ in range(blocks)]
            if own:
                matrix = nn.Linear(width, len(vocabulary), bias=False)
                matrix.weight = nn.Parameter(self.shared.clone())
                stack.append(matrix)
            self.heads.append(nn.ModuleList(stack))

    @property
    def shared(self) -> Float[Tensor, "known width"]:
        """Returns the rows of the target's head that belong to the vocabulary."""
        return self._shared_head.matrix

    def ahead(self, heads: Sequence[int], state: State) -> Float[Tensor, "heads *batch known"]:
        """Returns the logits of some heads; head 0 predicts the token after the next one."""
        stacks: list[Any] = [self.heads[head] for head in heads]
        states = [nn.Sequential(*stack[: self._blocks])(state) for stack in stacks]
        if self.borrowed_head is not None:  # read once for all of them
            return self.borrowed_head(torch.stack(states))
        return torch.stack([stack[-1](own) for stack, own in zip(stacks, states, strict=True)])

    @classmethod
    def read_checkpoint(cls, folder: Path, target: Target) -> Self:
        config = weights.read_config(folder, target)
        options = read_entries(folder, config, cls.family, TABLE)
        file, tensors, vocabulary = weights.read_tensors(folder, target.vocab_size)
        own = f"0.{options['blocks']}.weight" in tensors
        tensors = checkpoint.replace_prefixes(tensors, {"": "heads."})
        return cls.with_tensors(tensors, file, target, vocabulary, own=own, **options)

    def save_checkpoint(self, folder: Path, target: Target) -> None:
        """Writes the heads as FasterDecoding names them, in half precision."""
        tensors = checkpoint.replace_prefixes(self.state_dict(), {"heads.": ""})
        sizes = {"medusa_num_heads": len(self.heads), "medusa_num_layers": self._blocks}
        self._write(folder, target, tensors, **sizes, block=self._kind)


@final
class Medusa(StateDrafter[MedusaNetwork]):
    """Drafts on the target's last state, a head for each token (Medusa, 2401.10774).

    No head depends on what the others draw. A chain draws from each head in turn. A tree
    takes the likeliest tokens of each head as a Cartesian product, with `tree=top:3x2x1` or a
    list of paths.

    path: a folder that `outrider train` has written, or one of FasterDecoding's Medusa-1;
        "untrained" for random weights. Defaults to the weights for SmolLM2 that come with the
        package.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.

    Raises `ConfigError` in `bind` if the weights don't fit the target; it names the tensor.
    """

    _reads_newest = False

    def __init__(self, path: str | None = None, tree: Any = None) -> None:
        super().__init__(MedusaNetwork, path, tree)

    def _grow(self, pen: Pen, state: State, newest: int) -> None:
        self._shape.grow_at_once(pen, self._logits(pen.gamma, state))

    def _program(self, depth: int, states: Float[Tensor, "texts width"], *_: Tensor) -> Any:
        return at_once(self._logits(depth, states))

    def _logits(self, depth: int, state: State) -> Float[Tensor, "depths *batch vocab"]:
        return self._spread(self._network.ahead(range(depth), state))
