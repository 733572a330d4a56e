"""How Medusa's heads learn, and networks whose stages read drafted tokens."""

from dataclasses import dataclass
from typing import final

from torch import Tensor

from outrider.drafters.hydra import HydraNetwork
from outrider.drafters.medusa import MedusaNetwork
from outrider.drafters.mlp_speculator import MLPSpeculatorNetwork
from outrider.drafters.parts.networks.staged import StagedNetwork
from outrider.drafters.redrafter import ReDrafterNetwork
from outrider.extras.training.head_loss import HeadLoss, learnable
from outrider.extras.training.learner import Learner, Objective, Setup
from outrider.extras.training.states import Batch, sample_positions
from outrider.targets.passes.cached_model import HIDDEN


@final
@dataclass(frozen=True, slots=True)
class MedusaObjective(Objective):
    """Medusa-1 (2401.10774, section 2.2.1): the summed cross entropy of the heads.

    heads, blocks, kind, own: of the network, see `MedusaNetwork`.
    soft: whether to learn the target's distributions; if not, its tokens.
    share: the share of the positions that each step learns from.
    """

    heads: int = 4
    blocks: int = 1
    kind: str = "residual"
    own: bool = False
    soft: bool = True
    share: float = 1.0

    def learner(self, setup: Setup) -> Learner:
        options = {"heads": self.heads, "blocks": self.blocks, "kind": self.kind, "own": self.own}
        network = setup.network(MedusaNetwork, **options)
        head_loss = HeadLoss(setup.vocabulary, setup.head, self.soft)

        def loss(batch: Batch) -> Tensor:
            total = head_loss.matrix.new_zeros(())
            states = batch.states[HIDDEN]
            for head in range(self.heads):
                picked = sample_positions(
                    learnable(batch, setup.vocabulary, head + 2), self.share, network.training
                )
                rows, positions = picked.nonzero(as_tuple=True)
                logits = network.ahead(head, states[rows, positions])
                tokens = batch.ids[rows, positions + head + 2]
                total = total + head_loss(logits, states[rows, positions + head + 1], tokens)
            return total

        return setup.learner(network, loss)


@final
@dataclass(frozen=True, slots=True)
class MLPObjective(Objective):
    """The MLP speculator (2404.19124, section 4): the summed cross entropy of the stages.

    Each stage reads the text's own tokens.

    stages, borrowed, inner: of the network, see `MLPSpeculatorNetwork`.
    soft, share: as for Medusa.
    """

    stages: int = 4
    borrowed: bool = True
    inner: int | None = None
    soft: bool = True
    share: float = 1.0

    def learner(self, setup: Setup) -> Learner:
        options = {"stages": self.stages, "borrowed": self.borrowed, "inner": self.inner}
        network = setup.network(MLPSpeculatorNetwork, **options)
        return _staged(setup, network, self.stages, soft=self.soft, share=self.share)


@final
@dataclass(frozen=True, slots=True)
class HydraObjective(Objective):
    """Hydra (2402.05109, section 4): the summed cross entropy of the heads.

    Each head reads the text's own tokens.

    heads, blocks, own: of the network, see `HydraNetwork`.
    soft, share: as for Medusa.
    """

    heads: int = 4
    blocks: int = 1
    own: bool = False
    soft: bool = True
    share: float = 1.0

    def learner(self, setup: Setup) -> Learner:
        network = setup.network(HydraNetwork, heads=self.heads, blocks=self.blocks, own=self.own)
        return _staged(setup, network, self.heads, soft=self.soft, share=self.share)


@final
@dataclass(frozen=True, slots=True)
class ReDrafterObjective(Objective):
    """ReDrafter (2403.09919, section 4): the cross entropy of the head, summed over its steps.

    steps: how many tokens to predict from each position.
    blocks, own: of the network, see `ReDrafterNetwork`.
    soft, share: as for Medusa.
    """

    steps: int = 4
    blocks: int = 2
    own: bool = False
    soft: bool = True
    share: float = 1.0

    def learner(self, setup: Setup) -> Learner:
        network = setup.network(ReDrafterNetwork, blocks=self.blocks, own=self.own)
        return _staged(setup, network, self.steps, soft=self.soft, share=self.share)


def _staged(
    setup: Setup, network: StagedNetwork, stages: int, *, soft: bool, share: float
) -> Learner:
    """Returns how a staged network learns: the summed loss of its first stages."""
    head_loss = HeadLoss(setup.vocabulary, setup.head, soft)

    def loss(batch: Batch) -> Tensor:
        total = head_loss.matrix.new_zeros(())
        # All stages start from the same positions, those that have a token for the last stage.
        picked = sample_positions(
            learnable(batch, setup.vocabulary, stages + 1), share, network.training
        )
        rows, positions = picked.nonzero(as_tuple=True)
        states = network.start(batch.states[HIDDEN][rows, positions])
        for stage in range(stages):
            states = network(stage, states, batch.ids[rows, positions + stage + 1])
            target_states = batch.states[HIDDEN][rows, positions + stage + 1]
            tokens = batch.ids[rows, positions + stage + 2]
            total = total + head_loss(network.logits(stage, states), target_states, tokens)
        return total

    return setup.learner(network, loss)
