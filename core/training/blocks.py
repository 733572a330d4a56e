"""Blocks: DFlash learns to fill blocks of masks, each of which begins at some token of a text."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import linear

from outrider.drafters.dflash import DFlashNetwork
from outrider.runtime.cached_model import HIDDEN
from outrider.training.losses import cross_entropy, forward_kl
from outrider.training.states import Batch


def block_loss(
    network: DFlashNetwork,
    head: Float[Tensor, "vocab width"],
    batch: Batch,
    *,
    anchors: int,
    decay: float,
    soft: bool,
) -> Tensor:
    """Returns the loss of filling some blocks of each text (DFlash, 2602.06036, section 4.2).

    A block begins with a token of the text, its anchor, and masks follow. It sees the target's
    states before the anchor and its own masks, as in a draft.

    head: the target's output matrix.
    anchors: the number of blocks in each text, at random positions.
    decay: the factor on the loss from each place of a block to the next (Equation 4).
    soft: whether to learn the target's distributions, or else its tokens.
    """
    size, length, device = network.config.block, batch.ids.shape[1], batch.ids.device
    starts, counted = sample_anchors(batch.own, anchors)
    places = starts[..., None] + torch.arange(size, device=device)
    tokens = torch.full_like(places, network.config.mask)
    tokens[..., 0] = batch.ids.gather(1, starts)
    positions = torch.arange(length, device=device)[None].expand(len(starts), -1)
    caches = network.new_caches()
    network.read([batch.states[name] for name in network.reads], positions, caches)
    reach = _reach(starts, length, size)
    states = network(tokens.flatten(1), places.flatten(1), reach, caches)
    states = states.unflatten(1, places.shape[1:])[:, :, 1:]
    rows = torch.arange(len(starts), device=device)[:, None, None]
    ahead = places[..., 1:].clamp(max=length - 1)  # the tokens to predict
    learnable = _learnable(network, batch, soft=soft)[rows, ahead]
    learnable = learnable & counted[..., None] & (places[..., 1:] < length)
    if not learnable.any():
        return states.sum() * 0
    logits = network.logits(states[learnable])
    if soft:  # a state gives the distribution of the token after it
        before = batch.states[HIDDEN][rows, ahead - 1][learnable]
        terms = forward_kl(logits, linear(before, network.vocabulary.rows(head)))
    else:
        drafted = network.vocabulary.numbers(batch.ids[rows, ahead][learnable])
        terms = cross_entropy(logits, drafted)
    factors = decay ** torch.arange(size - 1, device=device)
    factors = factors.expand_as(learnable)[learnable]
    return (factors * terms).sum() / factors.sum()


def sample_anchors(
    own: Bool[Tensor, "texts tokens"], count: int
) -> tuple[Int[Tensor, "texts blocks"], Bool[Tensor, "texts blocks"]]:
    """Returns different positions in each text at random, and which of them count.

    Those that count stand before a token that the target wrote. A text with few of them has others
    that don't.

    count: of positions in each text, or as many as the longest answer has tokens.
    """
    before = torch.zeros_like(own)
    before[:, :-1] = own[:, 1:]
    count = max(1, min(count, int(before.sum(1).max())))
    best = torch.rand(own.shape, device=own.device).masked_fill(~before, -1).topk(count)
    return best.indices, best.values >= 0


def _learnable(network: DFlashNetwork, batch: Batch, *, soft: bool) -> Bool[Tensor, "texts tokens"]:
    """Returns the tokens that the target wrote where the network knows the likeliest one."""
    knows = network.vocabulary.knows
    learnable = batch.own.clone()
    learnable[:, 0] = False
    learnable[:, 1:] &= knows(batch.best)[:, :-1]
    return learnable if soft else learnable & knows(batch.ids)


def _reach(
    starts: Int[Tensor, "texts blocks"], length: int, size: int
) -> Bool[Tensor, "texts 1 rows all"]:
    """Returns what each row of the blocks attends to: the text before its block, and its block.

    length: of the texts. size: of the blocks.
    """
    text = torch.arange(length, device=starts.device)
    before = text < starts.repeat_interleave(size, dim=1)[..., None]
    number = torch.arange(starts.shape[1], device=starts.device).repeat_interleave(size)
    block = (number[:, None] == number).expand(len(starts), -1, -1)
    return torch.cat([before, block], dim=-1)[:, None]
