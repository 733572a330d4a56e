"""Weights: where a drafter's trained network lies, and whether it fits the target."""

from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from outrider.contract.target import Target
from outrider.drafter_parts import checkpoint
from outrider.errors import ConfigError
from outrider.runtime.linear import PackedLinear, pack
from outrider.runtime.ranks import gather_weight

UNTRAINED = "untrained"


@final
class Head:
    """Some rows of the target's head, lent to a network that does not count them as its own."""

    def __init__(self, matrix: Float[Tensor, "some width"]) -> None:
        self.matrix = matrix
        self._packed: PackedLinear | None = None

    def __call__(self, states: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows some"]:
        return linear(states, self.matrix) if self._packed is None else self._packed(states)

    def pack(self) -> None:
        """Packs the rows, for passes without gradient on a CPU."""
        rows, width = self.matrix.shape
        layer = nn.Linear(width, rows, bias=False, device="meta")
        layer.weight = nn.Parameter(self.matrix, requires_grad=False)
        self._packed = PackedLinear(layer)


Network = TypeVar("Network", bound=nn.Module)


def folder(family: str, path: str | None) -> Path:
    """Returns the folder of a family's weights; those for SmolLM2 where no path is given.

    Raises:
        ConfigError: there is no such folder.
    """
    place = built_in(family) if path is None else Path(path).expanduser()
    if not place.is_dir():
        raise ConfigError(f"drafter.path={str(path or place)!r}: expected a folder that exists")
    return place


def built_in(family: str) -> Path:
    """Returns the folder of the weights for SmolLM2 that come with the package."""
    return Path(str(files("outrider.drafters"))) / "weights" / family


def fits(place: Path, config: dict[str, Any], target: Target) -> None:
    """Raises `ConfigError` unless hidden size and vocabulary are the target's."""
    model = target.model.config.get_text_config()
    for name, right in (("hidden_size", model.hidden_size), ("vocab_size", target.vocab_size)):
        found = config.get(name, right)
        if int(found) != int(right):
            raise ConfigError(
                f"drafter.path={str(place)!r}: its {name} is {found}, the target's {right}"
            )


def embedding(target: Target) -> Tensor:
    """Returns the target's token embeddings, [vocab, width]."""
    return gather_weight(target.model, "input_embeddings")


def head(target: Target) -> Tensor:
    """Returns the target's output embeddings, [vocab, width].

    Raises:
        ConfigError: the target has none that is a plain matrix.
    """
    module = target.model.get_output_embeddings()
    if not hasattr(module, "weight") or getattr(module, "bias", None) is not None:
        raise ConfigError("target: expected a head that is one matrix without bias")
    return gather_weight(target.model, "output_embeddings")


def untrained(make: Callable[[], Network], target: Target, seed: int) -> Network:
    """Returns a network with random weights, ready; no other chance is moved."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ready(make(), target)


def filled(
    make: Callable[[], Network], target: Target, tensors: Mapping[str, Tensor], place: Path
) -> Network:
    """Returns a network with the tensors of a checkpoint, ready.

    Raises:
        ConfigError: a tensor does not fit; it is named.
    """
    network = untrained(make, target, 0)
    checkpoint.fill(network, tensors, place)
    if isinstance(target.model.get_output_embeddings(), PackedLinear):
        pack(network)
        for part in vars(network).values():
            if isinstance(part, Head):
                part.pack()
    return network


def ready(network: Network, target: Target) -> Network:
    """Returns the network where the target is, in its precision, for drafting."""
    return network.to(target.model.device, target.model.dtype).eval()
