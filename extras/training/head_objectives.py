"""How heads on the target's states learn, and an adapter behind its first layers."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from outrider.base.bounds import Count, checked
from outrider.base.errors import require
from outrider.drafters.hydra import HydraNetwork
from outrider.drafters.medusa import MedusaNetwork
from outrider.drafters.mlp_speculator import MLPSpeculatorNetwork
from outrider.drafters.parts.networks.adapter import Adapter
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.drafters.parts.networks.trained import StagedNetwork
from outrider.drafters.redrafter import ReDrafterNetwork
from outrider.extras.training.learner import Learner, Objective, Setup
from outrider.extras.training.losses import HeadLoss, learnable
from outrider.extras.training.states import Batch, sample_positions
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.passes.first_layers import depth


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
                logits = network.ahead([head], states[rows, positions])[0]
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


@final
@checked("recipe.options")
@dataclass(frozen=True, slots=True)
class ExitObjective(Objective):
    """Kangaroo (2404.18911): the cross entropy with the target's distributions.

    layers: how many of the target's layers lie below the adapter.
    soft: whether to learn the target's distributions; if not, its tokens.
    share: the share of the positions that each step learns from.

    Raises `ConfigError` in `learner` if the target has no more than `layers` layers.
    """

    layers: Count = 2
    soft: bool = True
    share: float = 1.0

    def learner(self, setup: Setup) -> Learner:
        target, vocabulary = setup.target, setup.vocabulary
        count = depth(target.model)
        is_valid = self.layers < count
        expected = f"a whole number from 1 to {count - 1}"
        require(is_valid, "recipe.options.layers", self.layers, expected)
        network = setup.network(Adapter, layers=self.layers)
        nn.init.zeros_(network.self_attn.o_proj.weight)  # the head reads the early state at first
        head_loss = HeadLoss(vocabulary, setup.head, self.soft)

        def loss(batch: Batch) -> Tensor:
            early = batch.states[network.reads]
            positions = torch.arange(early.shape[1], device=early.device).expand(len(early), -1)
            states = network(early, positions, None, KeysAndValues())
            counted = learnable(batch, vocabulary, 1)
            picked = sample_positions(counted, self.share, network.training)
            rows, columns = picked.nonzero(as_tuple=True)
            target_states = batch.states[HIDDEN][rows, columns]
            tokens = batch.ids[rows, columns + 1]
            return head_loss(network.logits(states[rows, columns]), target_states, tokens)

        return setup.learner(network, loss, network.reads)
