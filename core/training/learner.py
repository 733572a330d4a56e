"""A learner: a network that is being trained, whatever its family."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from torch import Tensor, nn

from outrider.training.states import Batch


def _as_it_is(batches: Iterable[Batch]) -> None: ...


@final
@dataclass(frozen=True, slots=True)
class Learner:
    """A network that is being trained.

    reads: the target's states that its loss needs. save: writes a folder.
    start: sets it to a good beginning, given some batches. option: of the drafter, for the folder.
    """

    network: nn.Module
    reads: tuple[str, ...]
    loss: Callable[[Batch], Tensor]
    save: Callable[[Path], None]
    start: Callable[[Iterable[Batch]], None] = _as_it_is
    option: str = "path"
