"""How Falcon learns: from its own blocks, with glances at the target's states and tokens."""

from dataclasses import asdict, dataclass
from functools import partial
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import linear

from outrider_more_drafters.falcon_network import FalconNetwork
from outrider.drafters.parts.networks.layer import Ids, KeysAndValues, States
from outrider.extras.training.learner import Learner, Objective, Setup
from outrider.extras.training.losses import cross_entropy, forward_kl, nearness
from outrider.extras.training.states import Batch
from outrider.targets.passes.cached_model import HIDDEN


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


def glancing_loss(
    network: FalconNetwork,
    batch: Batch,
    head: Float[Tensor, "known width"],
    *,
    glance: float,
    feature: float,
    distribution: float,
    noise: float,
) -> Tensor:
    """Returns the loss of Falcon's second pass (Coupled Sequential Glancing Distillation).

    A first pass predicts states and tokens from the target's own. The second pass reads these
    predictions, but in one run of consecutive positions it is shown the target's states and
    tokens instead. The better the network, the shorter the run.

    head: the target's output matrix for the tokens that the network knows.
    glance: the length of that run, as a share of the number of wrong tokens.
    feature: the weight of the smooth L1 distance to the target's states.
    distribution: the weight of the rest, .9 of the divergence and .1 of the cross entropy.
    noise: what is added to the target's states in training, uniform on [-noise, noise].
    """
    block, count = network.block, batch.ids.shape[1] - 1
    states, tokens = batch.states[HIDDEN][:, :count], batch.ids[:, 1:]
    offset = int(torch.randint(block, ())) if network.training else 0
    if network.training and noise:
        states = states + (2 * torch.rand_like(states) - 1) * noise
    with torch.no_grad():
        first = _block_states(network, states, tokens, offset)
        guessed = network.logits(first).argmax(-1)
    ids = network.vocabulary.ids
    guessed = guessed if ids is None else ids.to(guessed.device)[guessed]
    # The input at position i was predicted at i - block; the first positions have no prediction.
    own_states = torch.cat([states[:, :block], first[:, :-block]], dim=1)
    own_tokens = torch.cat([tokens[:, :block], guessed[:, :-block]], dim=1)
    shown = _random_runs(own_tokens != tokens, glance)
    own_states = torch.where(shown[..., None], states, own_states)
    own_tokens = torch.where(shown, tokens, own_tokens)
    out = _block_states(network, own_states, own_tokens, offset)
    target_states, after = batch.states[HIDDEN][:, block:count], batch.ids[:, block + 1 :]
    # A state gives the distribution of the token after it, which the target must have written.
    writable = network.vocabulary.knows(batch.best)[:, block:count] & network.vocabulary.knows(
        after
    )
    counted = batch.own[:, block + 1 :] & writable
    predicted, expected = out[:, : target_states.shape[1]][counted], target_states[counted]
    if not len(predicted):
        return out.sum() * 0
    logits = network.logits(predicted)
    divergence = forward_kl(logits, linear(expected, head))
    hard = cross_entropy(logits, network.vocabulary.numbers(after[counted]))
    soft_and_hard = 0.9 * divergence + 0.1 * hard
    return (feature * nearness(predicted, expected) + distribution * soft_and_hard).mean()


def _block_states(network: FalconNetwork, states: States, tokens: Ids, offset: int) -> States:
    """Returns the state `block` positions after each position, where blocks begin at `offset`."""
    positions = torch.arange(states.shape[1], device=states.device)
    number = (positions - offset) // network.block
    # The relaxed mask: each position attends to the whole of its block.
    reach = (number[None] <= number[:, None])[None, None]
    x, _ = network.fuse(states, tokens, None)
    out: Tensor = network(x, positions[None].expand(len(states), -1), reach, KeysAndValues())
    return out


def _random_runs(
    wrong: Bool[Tensor, "batch tokens"], glance: float
) -> Bool[Tensor, "batch tokens"]:
    """Returns a random run of consecutive positions in each text.

    wrong: where the predicted tokens are wrong; a run is `glance` times as long as their number.
    """
    texts, count = wrong.shape
    length = (glance * wrong.sum(1)).ceil().long()
    start = (torch.rand(texts, device=wrong.device) * (count - length + 1)).long()
    positions = torch.arange(count, device=wrong.device)[None]
    return (positions >= start[:, None]) & (positions < (start + length)[:, None])
