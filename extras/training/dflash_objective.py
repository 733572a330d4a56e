"""How DFlash learns to fill blocks of masks, each of which begins at some token of a text."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, linear

from outrider.base.bounds import Count, Share, checked
from outrider.base.expectations import AtLeast
from outrider.drafters.dflash.config import DFlashConfig
from outrider.drafters.dflash.corrector import CorrectorConfig
from outrider.drafters.dflash.network import DFlashNetwork
from outrider.drafters.dflash.published import EMBEDDING
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks.decoder_layers import LayerCaches
from outrider.drafters.parts.networks.features import default_layers
from outrider.extras.training.learner import Learner, Objective, Setup
from outrider.extras.training.losses import (
    LOW,
    HeadLoss,
    accepted_in_blocks,
    cross_entropy,
    expected_lengths,
    learnable,
)
from outrider.extras.training.states import Batch
from outrider.targets.passes.cached_model import HIDDEN


@final
@checked("recipe.options")
@dataclass(frozen=True, slots=True)
class DFlashObjective(Objective):
    """DFlash (2602.06036, section 4.2): fills some blocks of each text.

    A block begins with a token of the text, its anchor, and masks follow. It sees the target's
    states before the anchor, and all of its own tokens, as in a draft. A corrector is shown the
    text's own tokens. A confidence head learns the acceptance by cross entropy (DSpark,
    2607.05147). JetSpec (2606.18394) is `causal` and `soft`. `decay` is that of Equation 4.

    smoothing: weights each position by what is expected to be accepted from it on instead (D-PACE,
        2605.18810). 0 takes the acceptance as it is, and 1 all tokens as accepted.
    verified: the weight, beside the loss, of minus the tokens that block verification accepts of a
        block; its gradient is that of the least probability ratio of the tokens so far.
    backbone: of the same sizes; what it lacks begins with random weights.

    Raises `ConfigError` in `learner` if the backbone does not fit.
    """

    block: Annotated[int, AtLeast(2)] = 8
    decoders: Count = 2
    layers: list[int] | None = None
    inner: int | None = None
    anchors: Count = 32
    decay: float = 0.78
    smoothing: Share | None = None
    verified: Annotated[float, AtLeast(0)] = 0.0
    soft: bool = True
    corrector: str | None = None
    rank: Count = 256
    candidates: Count = 16
    causal: bool = False
    convolved: bool = False
    confident: bool = False
    backbone: str | None = None

    def learner(self, setup: Setup) -> Learner:
        target = setup.target
        config = DFlashConfig.like(
            target,
            layers=self.layers or default_layers(target),
            block=self.block,
            decoders=self.decoders,
            inner=self.inner,
            corrector=CorrectorConfig.of(self.corrector, self.rank, self.candidates),
            causal=self.causal,
            convolved=self.convolved,
            confident=EMBEDDING if self.confident else None,
        )
        network = setup.network(DFlashNetwork, config=config)
        if self.backbone is not None:
            file, tensors = checkpoint.find_tensors(Path(self.backbone).expanduser())
            own = network.state_dict()
            known = {name: rows for name, rows in tensors.items() if name in own}
            checkpoint.load_tensors(network, own | known, file)
        head_loss = HeadLoss(setup.vocabulary, setup.head, self.soft)

        def loss(batch: Batch) -> Tensor:
            starts, counted = sample_anchors(batch.own, self.anchors)
            rows_of_blocks, text = block_states(network, batch, starts)
            states = rows_of_blocks[:, :, 1:]
            length = batch.ids.shape[1]
            # The mask at position i predicts token i, as the target's state at i - 1 does.
            before = starts[..., None] + torch.arange(self.block - 1, device=starts.device)
            rows = torch.arange(len(starts), device=starts.device)[:, None, None]
            inside = counted[..., None] & (before < length)
            before = before.clamp(max=length - 1)
            picked = inside & learnable(batch, setup.vocabulary, 1)[rows, before]
            if not picked.any():
                return states.sum() * 0
            target_states = batch.states[HIDDEN][rows, before][picked]
            tokens = batch.ids.roll(-1, 1)[rows, before][picked]
            corrector = network.corrector
            if corrector is None:
                logits = network.logits(states[picked])
            else:
                earlier = batch.ids.gather(1, (starts - 1).clamp(min=0)).flatten()
                block = network.block(rows_of_blocks.flatten(0, 1), text, earlier)
                of_places = picked.flatten(0, 1)
                logits = corrector(block)(batch.ids[rows, before].flatten(0, 1), 0)[of_places]
            terms = head_loss.terms(logits, target_states, tokens)
            if self.smoothing is None:
                factors = self.decay ** torch.arange(self.block - 1, device=starts.device)
                factors = factors.expand_as(picked)[picked]
            else:
                kept = head_loss.acceptance(logits, target_states) if self.soft else (-terms).exp()
                kept = torch.lerp(kept.detach(), torch.ones_like(kept), self.smoothing)
                places = torch.zeros_like(picked, dtype=kept.dtype).masked_scatter(picked, kept)
                factors = expected_lengths(places)[picked]

            def mean(terms: Tensor) -> Tensor:
                return (factors * terms).sum() / factors.sum()

            total = mean(terms)
            if corrector is not None and corrector.base:
                plain = head_loss.terms(block.logits[of_places], target_states, tokens)
                total = total + corrector.base * mean(plain)
            if self.verified:
                numbers = setup.vocabulary.numbers(tokens)
                of_target = cross_entropy(linear(target_states, setup.head), numbers)
                logs = of_target - cross_entropy(logits.clamp(min=LOW), numbers)
                ratios = torch.full_like(picked, LOW, dtype=logs.dtype)
                accepted = accepted_in_blocks(ratios.masked_scatter(picked, logs))
                total = total - self.verified * accepted.sum() / picked.any(-1).sum()
            if self.confident:
                foreseen = network.foreseen(states[picked], batch.ids[rows, before][picked])
                accepted = head_loss.acceptance(logits, target_states).to(foreseen.dtype)
                terms = binary_cross_entropy_with_logits(foreseen, accepted, reduction="none")
                total = total + mean(terms)
            return total

        return setup.learner(network, loss, *network.reads)


def block_states(
    network: DFlashNetwork, batch: Batch, starts: Int[Tensor, "texts blocks"]
) -> tuple[Float[Tensor, "texts blocks rows w"], Float[Tensor, "all_blocks w"]]:
    """Returns the states of blocks that begin at some positions of each text.

    And, for all blocks of all texts, what the network makes of the last token before each.
    """
    size, length, device = network.config.block, batch.ids.shape[1], starts.device
    block_positions = starts[..., None] + torch.arange(size, device=device)
    tokens = torch.full_like(block_positions, network.config.mask)
    tokens[..., 0] = batch.ids.gather(1, starts)
    positions = torch.arange(length, device=device)[None].expand(len(starts), -1)
    caches = LayerCaches(len(network.layers))
    fused = network.read([batch.states[name] for name in network.reads], positions, caches)
    reach = block_reach(starts, length, size, causal=network.config.causal)
    states: Tensor = network(tokens.flatten(1), block_positions.flatten(1), reach, caches)
    rows = torch.arange(len(starts), device=device)[:, None]
    text = fused[rows, (starts - 1).clamp(min=0)] * (starts > 0)[..., None]
    return states.reshape(*block_positions.shape, -1), text.flatten(0, 1)


def sample_anchors(
    own: Bool[Tensor, "texts tokens"], count: int
) -> tuple[Int[Tensor, "texts blocks"], Bool[Tensor, "texts blocks"]]:
    """Returns random, different positions in each text, and which of them count.

    A position counts if the target wrote the token after it. A text with too few of these is filled
    up with positions that don't count.

    count: the number of positions in each text; at most as many as the longest answer has tokens.
    """
    before = torch.zeros_like(own)
    before[:, :-1] = own[:, 1:]
    count = max(1, min(count, int(before.sum(1).max())))
    best = torch.rand(own.shape, device=own.device).masked_fill(~before, -1).topk(count)
    return best.indices, best.values >= 0


def block_reach(
    starts: Int[Tensor, "texts blocks"], length: int, size: int, *, causal: bool = False
) -> Bool[Tensor, "texts 1 rows all"]:
    """Returns what each row of the blocks attends to: the text before its block, and its block.

    length: the tokens of a text. size: the tokens of a block.
    causal: whether a row sees only those before it in its block.
    """
    text = torch.arange(length, device=starts.device)
    before = text < starts.repeat_interleave(size, dim=1)[..., None]
    number = torch.arange(starts.shape[1], device=starts.device).repeat_interleave(size)
    block = number[:, None] == number
    block = block.tril() if causal else block
    return torch.cat([before, block.expand(len(starts), -1, -1)], dim=-1)[:, None]
