"""Unrolled: a feature network trained on its own output, as far ahead as it will draft."""

import torch
from torch import Tensor
from torch.nn.functional import linear

from outrider.drafter_parts.features import FeatureNetwork
from outrider.drafter_parts.layer import KeysAndValues
from outrider.runtime.cached_model import HIDDEN
from outrider.runtime.tree_mask import causal
from outrider.training.losses import forward_kl, nearness, top_k
from outrider.training.states import Batch


def unrolled(
    network: FeatureNetwork,
    batch: Batch,
    head: Tensor,
    *,
    steps: int,
    feature: float,
    distribution: float,
    best: float,
    decay: float,
    noise: float,
    detach: bool,
) -> Tensor:
    """Returns the loss of drafting `steps` tokens from every place of the texts.

    In step j each place reads what step j - 1 gave there, sees the target's states up to the
    place and its own outputs since (the training-time test of EAGLE-3, 2503.01840, section 3.2;
    the aligned passes of HASS, 2408.15766, section 3.2). One step is EAGLE-1's training.

    head: the target's, [vocab, width].
    feature, distribution, best: the weights of the smooth L1 distance to the target's state, of the
        divergence from its distribution over the drafter's vocabulary, and of HASS's top-k loss.
    decay: of the weight from step to step.
    noise: uniform on [-noise, noise], added to the states of the first step while training.
    detach: whether a step's loss leaves the steps before it alone.
    """
    places = batch.ids.shape[1] - 1
    known = network.vocabulary.rows(head)
    reads = [batch.states[name][:, :places] for name in network.reads]
    if network.training and noise:
        reads = [rows + (2 * torch.rand_like(rows) - 1) * noise for rows in reads]
    states = network.states(reads)
    device, cache = states.device, KeysAndValues()
    first = causal(places, places, device)[None, None]
    same = torch.eye(places, dtype=torch.bool, device=device)[None, None]
    writable = network.vocabulary.knows(batch.best)
    total, weight = states.new_zeros(()), 0.0
    for step in range(steps):
        tokens = _ahead(batch.ids, step + 1, places)
        positions = torch.arange(places, device=device)[None] + step
        reach = torch.cat([first, *[same] * step], dim=-1)
        states = network(states, tokens, positions.expand(len(tokens), -1), reach, cache)
        right = _ahead(batch.states[HIDDEN], step + 1, places)
        # The distribution there is of the token after, which has to be the target's own.
        counted = _ahead(batch.own, step + 2, places) & _ahead(writable, step + 1, places)
        out, wanted = states[counted], right[counted]
        if len(out):
            terms = states.new_zeros(len(out))
            scores, probs = network.logits(out), linear(wanted, known)
            terms = terms + distribution * forward_kl(scores, probs)
            if best:
                terms = terms + best * top_k(scores, probs)
            if feature:
                terms = terms + feature * nearness(out, wanted)
            total = total + decay**step * terms.mean()
        weight += decay**step
        if detach:
            states = states.detach()
    return total / weight


def _ahead(rows: Tensor, by: int, places: int) -> Tensor:
    """Returns what stands `by` places further on at each place; zeros past the end."""
    moved = rows[:, by : by + places]
    missing = places - moved.shape[1]
    return torch.cat([moved, moved.new_zeros(len(rows), missing, *rows.shape[2:])], dim=1)
