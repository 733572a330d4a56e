"""Medusa: heads beside the target's own, each of which reads one state and writes one place ahead."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import relu, silu

from outrider.contract.context import Context
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafter_parts import checkpoint, weights
from outrider.drafter_parts.trees import parse
from outrider.drafter_parts.vocabulary import Vocabulary
from outrider.errors import ConfigError
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.runtime.cached_model import HIDDEN


@final
class Residual(nn.Module):
    """Medusa's block: x + SiLU(W x + b), the identity while W and b are 0."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        return x + silu(self.linear(x))


@final
class Hidden(nn.Module):
    """The block of blockwise parallel decoding: one hidden layer and a residual (1811.03115, 4)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        out: Tensor = x + self.down(relu(self.up(x)))
        return out


BLOCKS = {"residual": Residual, "hidden": Hidden}


@final
class MedusaNetwork(nn.Module):
    """The heads (2401.10774, section 2.1.1), with the names of FasterDecoding's checkpoints.

    heads: how many places ahead. blocks: how many each has, of which `kind`.
    own: whether each has a matrix to the vocabulary, or all share the target's.
    """

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
        self._head = weights.Head(vocabulary.rows(weights.head(target).detach()))
        width = self._head.matrix.shape[1]
        self._blocks = blocks
        self.heads = nn.ModuleList()
        for _ in range(heads):
            stack: list[nn.Module] = [BLOCKS[kind](width) for _ in range(blocks)]
            if own:
                final = nn.Linear(width, len(vocabulary), bias=False)
                final.weight = nn.Parameter(self._head.matrix.clone())
                stack.append(final)
            self.heads.append(nn.ModuleList(stack))

    @property
    def shared(self) -> Float[Tensor, "some width"]:
        """Returns the rows of the target's head that belong to the vocabulary."""
        return self._head.matrix

    def ahead(self, head: int, state: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows some"]:
        """Returns the scores of head `head`, 0 being the one for the next token but one."""
        parts: Any = self.heads[head]
        for block in parts[: self._blocks]:
            state = block(state)
        last = parts[self._blocks] if len(parts) > self._blocks else self._head
        scores: Tensor = last(state)
        return scores


@final
class Medusa(Drafter):
    """Drafts from the state that gave the last token, a head for each place (2401.10774).

    The heads do not know what the others draw. A chain draws from each; a tree takes the most
    likely of each as a Cartesian product, with `tree=top:3x2x1` or a list of paths.

    path: a folder that `outrider train` has written, or one of FasterDecoding's Medusa-1; the
        weights for SmolLM2 that come with the package unless told; "untrained" for random ones.
    tree: a shape to fill, see `outrider.drafter_parts.trees`; a chain unless told.

    Raises `ConfigError` in `bind` where the weights don't fit the target, naming the tensor.
    """

    needs = frozenset({"model", HIDDEN})

    def __init__(self, path: str | None = None, tree: Any = None) -> None:
        self._path = path
        self._shape = parse(tree)
        self.kind = self._shape.kind
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is not target:
            self._network = read(self._path, target)
            self._target = target

    @torch.no_grad()
    def propose(self, context: Context, pen: Pen) -> None:
        states = context.features.get(HIDDEN)
        if not pen.open or states is None:
            return
        network = self._network
        pen.gamma = min(pen.gamma, len(network.heads))
        last = states[len(context.tokens) - 2]
        seen: dict[int, Tensor] = {}

        def probs(nodes: Sequence[int], paths: Sequence[Sequence[int]]) -> Tensor:
            depth = len(paths[0])
            if depth not in seen:
                seen[depth] = network.vocabulary.spread(network.ahead(depth, last))
            return seen[depth].expand(len(paths), -1)

        self._shape.grow(pen, probs)


def fresh(target: Target, vocabulary: Vocabulary, *, seed: int = 0, **shape: Any) -> MedusaNetwork:
    """Returns heads that fit a target, which all repeat what the target's own head says."""
    return weights.untrained(lambda: MedusaNetwork(target, vocabulary, **shape), target, seed)


def read(path: str | None, target: Target) -> MedusaNetwork:
    """Returns the heads in a folder, for a target."""
    if path == weights.UNTRAINED:
        return fresh(target, Vocabulary(target.vocab_size))
    place = weights.folder("medusa", path)
    config = checkpoint.read_config(place)
    weights.fits(place, config, target)
    file, tensors = checkpoint.tensors_in(place)
    vocabulary = Vocabulary(target.vocab_size, tensors.pop("vocabulary", None))
    heads = int(config.get("medusa_num_heads", 0))
    blocks = int(config.get("medusa_num_layers", 0))
    if heads < 1 or blocks < 1:
        raise ConfigError(f"{place}: expected medusa_num_heads and medusa_num_layers of at least 1")
    kind = str(config.get("block", "residual"))
    if kind not in BLOCKS:
        raise ConfigError(f"{place}: block={kind!r}: expected {' or '.join(BLOCKS)}")
    own = f"0.{blocks}.weight" in tensors
    named = {f"heads.{name}": tensor for name, tensor in tensors.items()}
    return weights.filled(
        lambda: MedusaNetwork(target, vocabulary, heads=heads, blocks=blocks, kind=kind, own=own),
        target,
        named,
        file,
    )


def save(network: MedusaNetwork, folder: Path, config: Mapping[str, Any]) -> None:
    """Writes the heads as FasterDecoding names them, in half precision."""
    tensors = {name.removeprefix("heads."): tensor for name, tensor in network.state_dict().items()}
    if network.vocabulary.ids is not None:
        tensors["vocabulary"] = network.vocabulary.ids
    checkpoint.save(folder, tensors, config, torch.float16)


@hookimpl
def register_drafters(register: Register) -> None:
    register("medusa", Medusa)
