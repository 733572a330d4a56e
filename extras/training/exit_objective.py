"""How an adapter behind the target's first layers learns."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from outrider.base.bounds import Count, checked
from outrider.base.errors import require
from outrider.drafters.parts.networks.adapter import Adapter
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.extras.training.head_loss import HeadLoss, learnable
from outrider.extras.training.learner import Learner, Objective, Setup
from outrider.extras.training.states import Batch, sample_positions
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.passes.first_layers import depth


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
