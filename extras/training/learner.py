"""Learners and objectives: what the training loop needs to know of a family of networks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar, final

from jaxtyping import Float
from torch import Tensor, nn

from outrider.base.errors import refusing
from outrider.contract.target import Target
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.trained import TrainedNetwork
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training.states import Batch
from outrider.targets.passes.cached_model import HIDDEN

Network = TypeVar("Network", bound=TrainedNetwork)


@final
@dataclass(frozen=True, slots=True)
class Learner:
    """A network in training.

    reads: the target's states that its loss needs, by name.
    loss: returns the loss of a batch.
    save_checkpoint: writes the network into a folder that its drafter can read.
    start: sets the network to a good start, from a few batches. Does nothing by default.
    option: the drafter's setting for that folder.
    """

    network: nn.Module
    reads: tuple[str, ...]
    loss: Callable[[Batch], Tensor]
    save_checkpoint: Callable[[Path], None]
    start: Callable[[Iterable[Batch]], None] = lambda _: None
    option: str = "path"


@final
@dataclass(frozen=True, slots=True)
class Setup:
    """What a network is trained for.

    vocabulary: the tokens that it is to know. seed: of its random weights.
    """

    target: Target
    vocabulary: Vocabulary
    seed: int

    @property
    def head(self) -> Float[Tensor, "known width"]:
        """Returns the target's output matrix for the tokens that are known, without gradients."""
        return self.vocabulary.rows(weights.head(self.target).detach())

    def network(self, family: type[Network], **options: Any) -> Network:
        """Returns a new network of a family. options: those of its constructor."""
        return family.untrained(self.target, self.vocabulary, seed=self.seed, **options)

    def learner(
        self,
        network: TrainedNetwork,
        loss: Callable[[Batch], Tensor],
        *reads: str,
        start: Callable[[Iterable[Batch]], None] = lambda _: None,
    ) -> Learner:
        """Returns how a family's network learns. reads: the states beside the target's last."""
        save_checkpoint = partial(network.save_checkpoint, target=self.target)
        return Learner(network, (HIDDEN, *reads), loss, save_checkpoint, start)


class Objective(ABC):
    """A family's way of learning; its fields are the recipe's `options`, which `conf/` explains."""

    @abstractmethod
    def learner(self, setup: Setup) -> Learner:
        """Returns a new network of the family, and how it learns."""


def make_learner(objective: str, options: Mapping[str, Any], setup: Setup) -> Learner:
    """Returns a new network, and how it learns; raises `ConfigError` if there is no such objective.

    objective: where its objective is, as "module:class". options: the fields of that class.
    """
    line = f"recipe.objective={objective!r}: expected the place of an objective, module:class"
    with refusing(line, ImportError, AttributeError, ValueError):
        made: type[Objective] = resolve_name(objective)
    return made(**options).learner(setup)
