"""How PARD and P-EAGLE learn to predict several tokens in one pass, behind masks."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from outrider.base.bounds import Count, checked
from outrider.base.errors import ConfigError
from outrider.base.expectations import OneOf, Within
from outrider.drafters.eagle3.config import Eagle3Config
from outrider.drafters.parts.networks.decoder_layers import LayerCaches
from outrider.drafters.parts.networks.features import default_layers
from outrider.drafters.parts.networks.logits import LogitRule
from outrider.drafters.parts.networks.student import save_student
from outrider.drafters.peagle.drafter import PEagleNetwork
from outrider.extras.training.distill import starting_student
from outrider.extras.training.learner import Learner, Objective, Setup
from outrider.extras.training.losses import DIVERGENCES, HeadLoss, learnable
from outrider.extras.training.states import Batch, sample_positions
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.passes.masks import additive_mask

Kept = Annotated[float, Within("(0, 1]")]
"""The share of the masks that stays from each depth to the next."""


@final
@dataclass(frozen=True, slots=True)
class MaskedText:
    """What a network reads in training: the tokens of a text, and masks behind many of them.

    positions: where each row stands in the text; it predicts the token at the next position.
    masks: how many masks lie between the row's last token and its end; 0 for the tokens.
    """

    positions: Int[Tensor, "rows"]
    masks: Int[Tensor, "rows"]

    @classmethod
    def sampled(cls, length: int, depth: int, retain: float) -> "MaskedText":
        """Returns the rows for a text, with masks dropped at random (PARD, section 3.2).

        A mask stays only if the one before it does, which it has to see.

        depth: how many tokens are predicted behind each token of the text.
        retain: the share of the masks that stays from each depth to the next.
        """
        kept = torch.arange(length)
        positions, masks = [kept], [torch.zeros_like(kept)]
        for count in range(1, depth):
            behind = kept[kept < length - 1] + 1
            chosen = torch.randperm(len(behind))[: round(retain * len(behind))]
            kept = behind[chosen].sort().values
            positions.append(kept)
            masks.append(torch.full_like(kept, count))
        return cls(torch.cat(positions), torch.cat(masks))

    def reach(self) -> Bool[Tensor, "1 1 rows rows"]:
        """Returns what each row attends to.

        That is the text up to its own last token, and the masks between that and itself.
        """
        last = self.positions - self.masks
        is_text = self.masks == 0
        sees_text = is_text & (self.positions <= last[:, None])
        sees_mask = ~is_text & (last == last[:, None]) & (self.masks <= self.masks[:, None])
        return (sees_text | sees_mask)[None, None]


@final
class MaskedStudent(nn.Module):
    """A language model with the embedding of a mask token, at first the mean of the others."""

    def __init__(self, student: Any) -> None:
        super().__init__()
        self.student = student
        table = student.get_input_embeddings().weight.detach()
        self.mask: nn.Parameter = nn.Parameter(table.float().mean(0).to(table.dtype))

    def forward(
        self, ids: Int[Tensor, "batch tokens"], rows: MaskedText, wanted: Int[Tensor, "wanted"]
    ) -> Float[Tensor, "batch wanted vocab"]:
        """Returns the logits of the wanted rows."""
        embeddings = self.student.get_input_embeddings()(ids)
        masks = self.mask.expand(len(ids), len(rows.masks) - ids.shape[1], -1)
        device, reach = ids.device, additive_mask(rows.reach(), embeddings.dtype)
        output = self.student(
            inputs_embeds=torch.cat([embeddings, masks], dim=1),
            attention_mask=reach.to(device).expand(len(ids), -1, -1, -1),
            position_ids=rows.positions[None].to(device).expand(len(ids), -1),
            logits_to_keep=wanted.to(device),
            use_cache=False,
        )
        logits: Tensor = output.logits
        return logits


@final
@checked("recipe.options")
@dataclass(frozen=True, slots=True)
class ParallelObjective(Objective):
    """PARD (2504.18583, section 3): the divergence from the target's distributions.

    The embeddings and the head stay the target's, and are not saved.

    Raises `ConfigError` in `learner` if the vocabulary is not the target's whole one, or the target
    has no more than `layers` layers.
    """

    layers: int = 6
    depth: Count = 8
    retain: Kept = 0.7
    divergence: Annotated[str, OneOf(DIVERGENCES)] = "forward_kl"
    share: float = 1.0

    def learner(self, setup: Setup) -> Learner:
        if len(setup.vocabulary) != setup.target.vocab_size:
            raise ConfigError("recipe.vocabulary: expected none, a small model knows all tokens")
        target = setup.target
        network = MaskedStudent(starting_student(target, None, self.layers))
        head, rule = setup.head, LogitRule.of(target)
        divergence = DIVERGENCES[self.divergence]

        def loss(batch: Batch) -> Tensor:
            # The last token is only predicted, so it has no row.
            rows = MaskedText.sampled(batch.ids.shape[1] - 1, self.depth, self.retain)
            every = rows.masks >= 0
            wanted = sample_positions(every, self.share, network.training).nonzero()[:, 0]
            logits: Tensor = network(batch.ids[:, :-1], rows, wanted)
            positions = rows.positions[wanted].to(batch.ids.device)
            counted = batch.own[:, 1:][:, positions]
            states = batch.states[HIDDEN][:, positions][counted]
            if not len(states):
                return logits.sum() * 0
            return divergence(logits[counted], rule(linear(states, head))).mean()

        def save_checkpoint(folder: Path) -> None:
            save_student(network.student, folder, mask=network.mask.detach())

        return Learner(network, (HIDDEN,), loss, save_checkpoint, option="model")


@final
@checked("recipe.options")
@dataclass(frozen=True, slots=True)
class PEagleObjective(Objective):
    """P-EAGLE (2602.01469, section 3): the target's distributions, at all positions of a draft."""

    depth: Count = 8
    retain: Kept = 0.7
    decoders: Count = 1
    layers: list[int] | None = None
    inner: int | None = None

    def learner(self, setup: Setup) -> Learner:
        layers = self.layers or default_layers(setup.target)
        config = Eagle3Config.like(setup.target, layers, self.inner, self.decoders)
        network = setup.network(PEagleNetwork, config=config)
        head_loss = HeadLoss(setup.vocabulary, setup.head)
        with torch.no_grad():  # the target's own rows are a better start than random ones
            network.lm_head.weight.copy_(head_loss.matrix)

        def loss(batch: Batch) -> Tensor:
            # The row at position i reads state i and token i + 1, and predicts token i + 2.
            rows = MaskedText.sampled(batch.ids.shape[1] - 2, self.depth, self.retain)
            states = row_states(network, batch, rows)
            after = rows.positions.to(batch.ids.device) + 1
            picked = learnable(batch, setup.vocabulary, 1)[:, after]
            return head_loss(
                network.logits(states[picked]),
                batch.states[HIDDEN][:, after][picked],
                batch.ids[:, after + 1][picked],
            )

        return setup.learner(network, loss, *network.reads)


def row_states(network: PEagleNetwork, batch: Batch, rows: MaskedText) -> Tensor:
    """Returns the network's state at each row of each text, [texts, rows, width]."""
    count, device = int((rows.masks == 0).sum()), batch.ids.device
    masks = len(rows.masks) - count
    states = network.states([batch.states[name][:, :count] for name in network.reads], masks)
    text = batch.ids[:, 1 : count + 1]
    tokens = torch.cat([text, text.new_full((len(text), masks), network.config.mask)], dim=1)
    positions = rows.positions.to(device).expand(len(text), -1)
    caches = LayerCaches(network.config.decoders)
    after: Tensor = network(states, tokens, positions, rows.reach().to(device), caches)
    return after
