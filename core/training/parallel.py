"""Parallel drafting: a small model learns to predict several tokens in one pass, behind masks."""

from dataclasses import dataclass
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from outrider.drafter_parts import weights
from outrider.drafter_parts.logits import LogitRule
from outrider.drafter_parts.student import save_student
from outrider.errors import ConfigError, is_int, is_number, nearest, require
from outrider.runtime.cached_model import HIDDEN
from outrider.runtime.tree_mask import additive_mask
from outrider.training.distill import starting_student
from outrider.training.learner import Learner, Objective, Setup
from outrider.training.losses import DIVERGENCES
from outrider.training.states import Batch, sample_positions


@final
@dataclass(frozen=True, slots=True)
class Rows:
    """What a model reads in training: the tokens of a text, and masks behind many of them.

    positions: where each row stands in the text; it predicts the token at the next position.
    masks: how many masks lie between the row's last token and its end; 0 for the tokens.
    """

    positions: Int[Tensor, "rows"]
    masks: Int[Tensor, "rows"]

    @classmethod
    def sampled(cls, length: int, depth: int, retain: float) -> "Rows":
        """Returns the rows for a text, with masks dropped at random (PARD, section 3.2).

        A mask stays only if the one before it does, which it has to see.

        depth: how many tokens are predicted behind each token of the text.
        retain: the share that stays of those one mask nearer to the text.
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

    def mask(self, dtype: torch.dtype) -> Float[Tensor, "1 1 rows rows"]:
        """Returns what is added to attention's scores.

        Each row sees the text up to its own last token, and the masks between that and itself.
        """
        last = self.positions - self.masks
        is_text = self.masks == 0
        sees_text = is_text & (self.positions <= last[:, None])
        sees_mask = ~is_text & (last == last[:, None]) & (self.masks <= self.masks[:, None])
        return additive_mask(sees_text | sees_mask, dtype)[None, None]


@final
class MaskedStudent(nn.Module):
    """A language model with the embedding of a mask token, at first the mean of the others."""

    def __init__(self, student: Any) -> None:
        super().__init__()
        self.student = student
        table = student.get_input_embeddings().weight.detach()
        self.mask: nn.Parameter = nn.Parameter(table.float().mean(0).to(table.dtype))

    def forward(
        self, ids: Int[Tensor, "batch tokens"], rows: Rows, wanted: Int[Tensor, "wanted"]
    ) -> Float[Tensor, "batch wanted vocab"]:
        """Returns the logits of the wanted rows."""
        words = self.student.get_input_embeddings()(ids)
        masks = self.mask.expand(len(ids), int((rows.masks > 0).sum()), -1)
        device = ids.device
        output = self.student(
            inputs_embeds=torch.cat([words, masks], dim=1),
            attention_mask=rows.mask(words.dtype).to(device).expand(len(ids), -1, -1, -1),
            position_ids=rows.positions[None].to(device).expand(len(ids), -1),
            logits_to_keep=wanted.to(device),
            use_cache=False,
        )
        logits: Tensor = output.logits
        return logits


@final
@dataclass(frozen=True, slots=True)
class ParallelObjective(Objective):
    """PARD (2504.18583, section 3): the divergence from the target's distributions, at all places.

    layers: how many of the target's layers to start from. The embeddings and the head stay the
        target's, and are not saved.
    depth: how many tokens to predict in a pass.
    retain: the share of the masks that stays from each place to the next; fewer cost less.
    divergence, share: as for `DistillationObjective`.

    Raises `ConfigError` in `learner` if a number is out of range, if the divergence is unknown, if
    the vocabulary is not the target's whole one, or if the target has no more than `layers` layers.
    """

    layers: int = 6
    depth: int = 8
    retain: float = 0.7
    divergence: str = "forward_kl"
    share: float = 1.0

    def learner(self, setup: Setup) -> Learner:
        is_known = self.divergence in DIVERGENCES
        expected = nearest(self.divergence, list(DIVERGENCES))
        require(is_known, "recipe.options.divergence", self.divergence, f"another: {expected}")
        is_valid = is_int(self.depth) and self.depth >= 1
        require(is_valid, "recipe.options.depth", self.depth, "a whole number of at least 1")
        is_valid = is_number(self.retain) and 0 < self.retain <= 1
        require(is_valid, "recipe.options.retain", self.retain, "a number in (0, 1]")
        if len(setup.vocabulary) != setup.target.vocab_size:
            raise ConfigError("recipe.vocabulary: expected none, a small model knows all tokens")
        target = setup.target
        network = MaskedStudent(starting_student(target, None, self.layers))
        head, rule = weights.head(target).detach(), LogitRule.of(target)
        divergence = DIVERGENCES[self.divergence]

        def loss(batch: Batch) -> Tensor:
            # The last token of the batch is behind no row.
            rows = Rows.sampled(batch.ids.shape[1] - 1, self.depth, self.retain)
            every = torch.ones_like(rows.masks, dtype=torch.bool)
            wanted = sample_positions(every, self.share, network.training).nonzero()[:, 0]
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
