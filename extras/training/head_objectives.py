"""How heads on the target's states learn, and an adapter behind its first layers."""

from dataclasses import asdict, dataclass
from typing import ClassVar, final

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
    """Medusa-1 (2401.10774, section 2.2.1): the summed cross entropy of the heads."""

    heads: int = 4
    blocks: int = 1
    kind: str = "residual"
    own: bool = False
    soft: bool = True
    share: float = 1.0

    def learner(self, setup: Setup) -> Learner:
        options = asdict(self)
        soft, share = options.pop("soft"), options.pop("share")
        network = setup.network(MedusaNetwork, **options)
        head_loss = HeadLoss(setup.vocabulary, setup.head, soft)

        def loss(batch: Batch) -> Tensor:
            total = head_loss.matrix.new_zeros(())
            states = batch.states[HIDDEN]
            for head in range(self.heads):
                counted = learnable(batch, setup.vocabulary, head + 2)
                rows, positions = sample_positions(counted, share, network.training).nonzero().T
                logits = network.ahead([head], states[rows, positions])[0]
                tokens = batch.ids[rows, positions + head + 2]
                total = total + head_loss(logits, states[rows, positions + head + 1], tokens)
            return total

        return setup.learner(network, loss)


@dataclass(frozen=True, slots=True)
class StagedObjective(Objective):
    """The summed cross entropy of a network's stages, each of which reads the text's own tokens.

    Further fields are of the network, `family`, except for `steps`: how many stages learn.
    """

    family: ClassVar[type[StagedNetwork]]

    soft: bool = True
    share: float = 1.0

    def learner(self, setup: Setup) -> Learner:
        options = asdict(self)
        soft, share, steps = (options.pop(name, None) for name in ("soft", "share", "steps"))
        network = setup.network(self.family, **options)
        stages = network.stages or steps
        head_loss = HeadLoss(setup.vocabulary, setup.head, soft)

        def loss(batch: Batch) -> Tensor:
            total = head_loss.matrix.new_zeros(())
            # All stages start from the same positions, those that have a token for the last stage.
            counted = learnable(batch, setup.vocabulary, stages + 1)
            rows, positions = sample_positions(counted, share, network.training).nonzero().T
            states = network.start(batch.states[HIDDEN][rows, positions])
            for stage in range(stages):
                states = network(stage, states, batch.ids[rows, positions + stage + 1])
                target_states = batch.states[HIDDEN][rows, positions + stage + 1]
                tokens = batch.ids[rows, positions + stage + 2]
                total = total + head_loss(network.logits(stage, states), target_states, tokens)
            return total

        return setup.learner(network, loss)


@final
@dataclass(frozen=True, slots=True)
class MLPObjective(StagedObjective):
    """The MLP speculator (2404.19124, section 4)."""

    family: ClassVar[type[StagedNetwork]] = MLPSpeculatorNetwork

    stages: int = 4
    borrowed: bool = True
    inner: int | None = None


@final
@dataclass(frozen=True, slots=True)
class HydraObjective(StagedObjective):
    """Hydra (2402.05109, section 4)."""

    family: ClassVar[type[StagedNetwork]] = HydraNetwork

    heads: int = 4
    blocks: int = 1
    own: bool = False


@final
@dataclass(frozen=True, slots=True)
class ReDrafterObjective(StagedObjective):
    """ReDrafter (2403.09919, section 4), whose head is one stage that is taken again and again."""

    family: ClassVar[type[StagedNetwork]] = ReDrafterNetwork

    steps: int = 4
    blocks: int = 2
    own: bool = False


@final
@checked("recipe.options")
@dataclass(frozen=True, slots=True)
class ExitObjective(Objective):
    """Kangaroo (2404.18911): the cross entropy with the target's distributions.

    Raises `ConfigError` in `learner` if the target has no more than `layers` layers.
    """

    layers: Count = 2
    soft: bool = True
    share: float = 1.0

    def learner(self, setup: Setup) -> Learner:
        count = depth(setup.target.model)
        expected = f"a whole number from 1 to {count - 1}"
        require(self.layers < count, "recipe.options.layers", self.layers, expected)
        network = setup.network(Adapter, layers=self.layers)
        nn.init.zeros_(network.self_attn.o_proj.weight)  # the head reads the early state at first
        head_loss = HeadLoss(setup.vocabulary, setup.head, self.soft)

        def loss(batch: Batch) -> Tensor:
            early = batch.states[network.reads]
            positions = torch.arange(early.shape[1], device=early.device).expand(len(early), -1)
            states = network(early, positions, None, KeysAndValues())
            counted = learnable(batch, setup.vocabulary, 1)
            picked = sample_positions(counted, self.share, network.training)
            tokens = batch.ids.roll(-1, 1)[picked]
            return head_loss(network.logits(states[picked]), batch.states[HIDDEN][picked], tokens)

        return setup.learner(network, loss, network.reads)
