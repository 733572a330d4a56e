"""Parallel drafting: a small model learns to predict several tokens in one pass, behind masks."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from outrider.base.bounds import Count, OneOf, checked
from outrider.base.errors import ConfigError
from outrider.drafters.parts.networks.logits import LogitRule
from outrider.drafters.parts.networks.student import save_student
from outrider.extras.training.distill import starting_student
from outrider.extras.training.learner import Learner, Objective, Setup
from outrider.extras.training.losses import DIVERGENCES
from outrider.extras.training.masked_text import Kept, MaskedText
from outrider.extras.training.states import Batch, sample_positions
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.passes.tree_mask import additive_mask


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
        masks = self.mask.expand(len(ids), int((rows.masks > 0).sum()), -1)
        device = ids.device
        reach = additive_mask(rows.reach(), embeddings.dtype)
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

    layers: how many of the target's layers to start from. The embeddings and the head stay the
        target's, and are not saved.
    depth: how many tokens to predict in a pass.
    retain: the share of the masks that stays from each depth to the next; fewer cost less.
    divergence, share: as for `DistillationObjective`.

    Raises `ConfigError` in `learner` if a number is out of range, if the divergence is unknown, if
    the vocabulary is not the target's whole one, or if the target has no more than `layers` layers.
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
            all_rows = torch.ones_like(rows.masks, dtype=torch.bool)
            wanted = sample_positions(all_rows, self.share, network.training).nonzero()[:, 0]
            logits: Tensor = network(batch.ids[:, :-1], rows, wanted)
            positions = rows.positions[wanted].to(batch.ids.device)
            counted = batch.own[:, 1:][:, positions]
            states = batch.states[HIDDEN][:, positions][counted]
            if not len(states):
                return logits.sum() * 0
            return divergence(logits[counted], rule(linear(states, head))).mean()

        save_checkpoint = partial(_save, network)
        return Learner(network, (HIDDEN,), loss, save_checkpoint, option="model")


def _save(network: MaskedStudent, folder: Any) -> None:
    save_student(network.student, folder, mask=network.mask.detach())
