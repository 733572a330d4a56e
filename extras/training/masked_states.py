"""P-EAGLE learns to predict several tokens in one pass, behind masks."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from outrider.base.bounds import Count, checked
from outrider.drafters.parts.networks.decoder_layers import LayerCaches
from outrider.drafters.parts.networks.features import default_layers
from outrider.drafters.peagle.config import PEagleConfig
from outrider.drafters.peagle.network import PEagleNetwork
from outrider.extras.training.head_loss import HeadLoss, learnable
from outrider.extras.training.learner import Learner, Objective, Setup
from outrider.extras.training.masked_text import Kept, MaskedText
from outrider.extras.training.states import Batch
from outrider.targets.passes.cached_model import HIDDEN


@final
@checked("recipe.options")
@dataclass(frozen=True, slots=True)
class PEagleObjective(Objective):
    """P-EAGLE (2602.01469, section 3): the target's distributions, at all positions of a draft.

    depth: how many tokens to predict in a pass.
    retain: the share of the masks that stays from each depth to the next; fewer cost less.
    decoders: the number of decoder layers.
    layers, inner: as for `Eagle3Objective`.

    Raises `ConfigError` in `learner` if a number is out of range.
    """

    depth: Count = 8
    retain: Kept = 0.7
    decoders: Count = 1
    layers: list[int] | None = None
    inner: int | None = None

    def learner(self, setup: Setup) -> Learner:
        target, vocabulary = setup.target, setup.vocabulary
        config = PEagleConfig.like(
            target,
            layers=self.layers or default_layers(target),
            decoders=self.decoders,
            inner=self.inner,
        )
        network = setup.network(PEagleNetwork, config=config)
        head_loss = HeadLoss(vocabulary, setup.head)
        with torch.no_grad():  # the target's own rows are a better start than random ones
            network.lm_head.weight.copy_(head_loss.matrix)

        def loss(batch: Batch) -> Tensor:
            # The row at position i reads state i and token i + 1, and predicts token i + 2.
            rows = MaskedText.sampled(batch.ids.shape[1] - 2, self.depth, self.retain)
            states = row_states(network, batch, rows)
            after = rows.positions.to(batch.ids.device) + 1
            picked = learnable(batch, vocabulary, 1)[:, after]
            return head_loss(
                network.logits(states[picked]),
                batch.states[HIDDEN][:, after][picked],
                batch.ids[:, after + 1][picked],
            )

        return setup.learner(network, loss, *network.reads)


def row_states(network: PEagleNetwork, batch: Batch, rows: MaskedText) -> Tensor:
    """Returns the network's state at each row of each text, [texts, rows, width]."""
    masks = int((rows.masks > 0).sum())
    count, device = len(rows.masks) - masks, batch.ids.device
    states = network.states([batch.states[name][:, :count] for name in network.reads], masks)
    text = batch.ids[:, 1 : count + 1]
    tokens = torch.cat([text, text.new_full((len(text), masks), network.config.mask)], dim=1)
    positions = rows.positions.to(device).expand(len(text), -1)
    caches = LayerCaches(network.config.decoders)
    after: Tensor = network(states, tokens, positions, rows.reach().to(device), caches)
    return after
