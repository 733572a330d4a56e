"""A learner: a network that is being trained, whatever its family."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from torch import Tensor, nn

from outrider.training.states import Batch


@final
@dataclass(frozen=True, slots=True)
class Learner:
    """A network that is being trained.

    reads: the target's states that its loss needs. save: writes a folder.
    option: of the drafter, for that folder.
    """

    network: nn.Module
    reads: tuple[str, ...]
    loss: Callable[[Batch], Tensor]
    save: Callable[[Path], None]
    option: str = "path"
