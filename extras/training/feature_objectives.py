"""How EAGLE, EAGLE-3, MTP and Falcon learn, on the target's states."""

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import final

import torch

from outrider.drafters.eagle import EagleNetwork
from outrider.drafters.eagle3.config import Eagle3Config
from outrider.drafters.eagle3.network import Eagle3Network
from outrider.drafters.falcon.network import FalconNetwork
from outrider.drafters.mtp.network import MtpNetwork
from outrider.drafters.parts.networks.features import default_layers
from outrider.drafters.parts.networks.layer import LayerConfig
from outrider.extras.training.falcon_glancing import glancing_loss
from outrider.extras.training.initialisation import start_eagle
from outrider.extras.training.learner import Learner, Objective, Setup
from outrider.extras.training.unrolled import Unrolling, unrolled_loss


@final
@dataclass(frozen=True, slots=True)
class EagleObjective(Objective):
    """EAGLE-1 (2401.15077, section 3.2), or HASS (2408.15766) with three steps and `best` 1.

    The fields are those of `Unrolling`.
    """

    steps: int = 1
    feature: float = 1.0
    distribution: float = 0.1
    best: float = 0.0
    noise: float = 0.1

    def learner(self, setup: Setup) -> Learner:
        network = setup.network(EagleNetwork)
        unrolling = Unrolling(**asdict(self), detach=True)
        loss = partial(unrolled_loss, network, head=setup.head, unrolling=unrolling)
        start = partial(start_eagle, network, setup.target)
        return setup.learner(network, loss, start=start)


@final
@dataclass(frozen=True, slots=True)
class Eagle3Objective(Objective):
    """EAGLE-3 (2503.01840, section 3.2): the network reads its own output, as when it drafts.

    steps, decay: see `Unrolling`.
    layers: the target's states that it reads. Defaults to a low, a middle and a high one.
    inner: the width of its feed-forward layer. Defaults to the target's.
    """

    steps: int = 7
    decay: float = 0.8
    layers: list[int] | None = None
    inner: int | None = None

    def learner(self, setup: Setup) -> Learner:
        target = setup.target
        config = LayerConfig.like(target.model.config.get_text_config(), inputs=2)
        if self.inner is not None:
            config = replace(config, intermediate_size=self.inner)
        layers = tuple(self.layers or default_layers(target))
        network = setup.network(Eagle3Network, config=Eagle3Config(config, layers))
        with torch.no_grad():  # the target's own rows are a better start than random ones
            network.lm_head.weight.copy_(setup.head)
        unrolling = Unrolling(steps=self.steps, decay=self.decay)
        loss = partial(unrolled_loss, network, head=setup.head, unrolling=unrolling)
        return setup.learner(network, loss, *network.reads)


@final
@dataclass(frozen=True, slots=True)
class MtpObjective(Objective):
    """A layer for multi-token prediction, for a target without one (2412.19437, section 2.2).

    It learns the target's distributions, also from its own output, since it drafts all tokens.

    steps, decay: see `Unrolling`.
    """

    steps: int = 3
    decay: float = 0.8

    def learner(self, setup: Setup) -> Learner:
        network = setup.network(MtpNetwork)
        unrolling = Unrolling(steps=self.steps, decay=self.decay)
        loss = partial(unrolled_loss, network, head=setup.head, unrolling=unrolling)
        return setup.learner(network, loss)


@final
@dataclass(frozen=True, slots=True)
class FalconObjective(Objective):
    """Falcon (AAAI 2025, doi 10.1609/aaai.v39i22.34566): a second pass that glances at states.

    block: the number of tokens that the network drafts in a pass.
    glance, feature, distribution, noise: see `glancing_loss`.
    """

    block: int = 2
    glance: float = 0.4
    feature: float = 1.0
    distribution: float = 0.1
    noise: float = 0.1

    def learner(self, setup: Setup) -> Learner:
        options = asdict(self)
        network = setup.network(FalconNetwork, block=options.pop("block"))
        loss = partial(glancing_loss, network, head=setup.head, **options)
        return setup.learner(network, loss)
