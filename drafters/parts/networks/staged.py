"""Staged networks: small networks in a row, each of which reads the token drafted last."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from outrider.contract.context import Context
from outrider.contract.pen import Pen
from outrider.drafters.parts.networks.layer import Known, State
from outrider.drafters.parts.networks.trained import TrainedDrafter, TrainedNetwork
from outrider.targets.passes.cached_model import HIDDEN


class StagedNetwork(TrainedNetwork):
    """Predicts the first token of a draft from the target's state and the newest token.

    Each stage makes its state from the previous stage's state and the token that was drafted from
    it.

    stages: how many there are, and so how many tokens a draft can have; None for no limit.
    """

    stages: int | None

    def start(self, state: State) -> State:
        """Returns what the first stage reads, from the target's state."""
        return state

    @abstractmethod
    def forward(self, stage: int, state: State, tokens: Int[Tensor, "*batch"]) -> State:
        """Returns the state of a stage, from that of the stage before and the newest token."""

    @abstractmethod
    def logits(self, stage: int, state: State) -> Known:
        """Returns the logits of the token that a stage predicts, from its state."""


Network = TypeVar("Network", bound=StagedNetwork)


class StagedDrafter(TrainedDrafter[Network]):
    """Drafts from the state that gave the last token, stage by stage."""

    needs: frozenset[str] = frozenset({"model", HIDDEN})

    @torch.no_grad()
    def propose(self, context: Context, pen: Pen) -> None:
        features = context.features.get(HIDDEN)
        if not pen.open or features is None:
            return
        network = self._network
        if network.stages is not None:
            pen.limit(network.stages)
        start = network.start(features[len(context.tokens) - 2])
        newest = context.tokens[-1]
        states: dict[tuple[int, ...], Tensor] = {}

        def next_logits(paths: Sequence[Sequence[int]]) -> Tensor:
            stage = len(paths[0])
            before = [states[tuple(path[:-1])] if path else start for path in paths]
            tokens = [path[-1] if path else newest for path in paths]
            ids = torch.tensor(tokens, device=start.device)
            after = network(stage, torch.stack(before), ids)
            states.update((tuple(path), state) for path, state in zip(paths, after, strict=True))
            return self._spread(network.logits(stage, after))

        self._shape.grow(pen, next_logits)
