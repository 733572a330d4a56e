"""Glancing: a semi-autoregressive network trained on its own blocks, with glances at the target's."""

import torch
from torch import Tensor
from torch.nn.functional import linear

from outrider.drafter_parts.layer import KeysAndValues
from outrider.drafters.falcon import FalconNetwork
from outrider.runtime.cached_model import HIDDEN
from outrider.training.losses import cross_entropy, forward_kl, nearness
from outrider.training.states import Batch


def glancing(
    network: FalconNetwork,
    batch: Batch,
    head: Tensor,
    *,
    glance: float,
    feature: float,
    probs: float,
    noise: float,
) -> Tensor:
    """Returns the loss of Falcon's second pass (Coupled Sequential Glancing Distillation).

    A first pass predicts states and tokens from the target's own. In the second it reads these
    predictions, but for a run of places in a row, where it is shown the target's states and
    tokens: as many as `glance` times the tokens that it got wrong, the fewer the better it is.

    head: the target's, [vocab, width]. feature, distribution: weights of the smooth L1 distance, and of
    .9 of the divergence and .1 of the cross entropy. noise: uniform, on what is read in training.
    """
    block, places = network.block, batch.ids.shape[1] - 1
    states, tokens = batch.states[HIDDEN][:, :places], batch.ids[:, 1:]
    offset = int(torch.randint(block, ())) if network.training else 0
    if network.training and noise:
        states = states + (2 * torch.rand_like(states) - 1) * noise
    with torch.no_grad():
        first = _ahead(network, states, tokens, offset)
        guessed = network.logits(first).argmax(-1)
    ids = network.vocabulary.ids
    guessed = guessed if ids is None else ids.to(guessed.device)[guessed]
    # What is read at place i was predicted at place i - block; the first places have no such.
    own_states = torch.cat([states[:, :block], first[:, :-block]], dim=1)
    own_tokens = torch.cat([tokens[:, :block], guessed[:, :-block]], dim=1)
    shown = _run(own_tokens != tokens, glance)
    own_states = torch.where(shown[..., None], states, own_states)
    own_tokens = torch.where(shown, tokens, own_tokens)
    out = _ahead(network, own_states, own_tokens, offset)
    right, after = batch.states[HIDDEN][:, block:places], batch.ids[:, block + 1 :]
    # The distribution there is of the token after, which has to be the target's own.
    writable = network.vocabulary.knows(batch.best)[:, block:places] & network.vocabulary.knows(
        after
    )
    counted = batch.own[:, block + 1 :] & writable
    own, wanted, said = out[:, : right.shape[1]][counted], right[counted], after[counted]
    if not len(own):
        return out.sum() * 0
    scores = network.logits(own)
    divergence = forward_kl(scores, linear(wanted, network.vocabulary.rows(head)))
    hard = cross_entropy(scores, network.vocabulary.places(said))
    return (feature * nearness(own, wanted) + probs * (0.9 * divergence + 0.1 * hard)).mean()


def _ahead(network: FalconNetwork, states: Tensor, tokens: Tensor, offset: int) -> Tensor:
    """Returns the state `block` places after each place, where blocks begin at `offset`."""
    places = torch.arange(states.shape[1], device=states.device)
    number = (places - offset) // network.block
    reach = (number[None] <= number[:, None])[None, None]  # relaxed: of a block each sees all
    x, _ = network.read(states, tokens, None)
    positions = places[None].expand(len(states), -1)
    out: Tensor = network(x, positions, reach, KeysAndValues())
    return out


def _run(wrong: Tensor, glance: float) -> Tensor:
    """Returns, text by text, places in a row from anywhere: `glance` times as many as are wrong."""
    texts, places = wrong.shape
    count = (glance * wrong.sum(1)).ceil().long()
    start = (torch.rand(texts, device=wrong.device) * (places - count + 1)).long()
    where = torch.arange(places, device=wrong.device)[None]
    return (where >= start[:, None]) & (where < (start + count)[:, None])
