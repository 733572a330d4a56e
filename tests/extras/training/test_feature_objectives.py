"""Training is like drafting: unrolled passes give drafts along the text, from a good start."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny.pens import new_pen
from torch.nn.functional import embedding

from outrider import Context, SampledChance, Sampling, Tokens
from outrider.drafters.eagle import Eagle, EagleNetwork
from outrider.drafters.eagle3.config import Eagle3Config
from outrider.drafters.eagle3.drafter import Eagle3, Eagle3Network
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.layer import KeysAndValues, LayerConfig
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training.feature_objectives import Unrolling, start_eagle, unrolled_loss
from outrider.extras.training.states import Batch
from outrider.lab.measuring.reference import ForcedChance
from outrider.targets.passes.cached_model import HIDDEN

STEPS = 3
UNROLLING = Unrolling(STEPS, feature=1.0, distribution=0.1)


def made(family: str, target: Any) -> Any:
    vocabulary = Vocabulary(target.vocab_size)
    if family == "eagle":
        return EagleNetwork.untrained(target, vocabulary)
    sizes = LayerConfig.like(target.model.config, inputs=2)
    return Eagle3Network.untrained(target, vocabulary, config=Eagle3Config(sizes, (0, 2, 4)))


def batch_of(target: Any, ids: list[int]) -> Batch:
    output = target.model(torch.tensor([ids]), output_hidden_states=True)
    states = {HIDDEN: output.hidden_states[-1].detach()}
    states |= {f"{HIDDEN}.{k}": output.hidden_states[k].detach() for k in range(5)}
    tokens = torch.tensor([ids])
    return Batch(tokens, output.logits.argmax(-1), torch.ones_like(tokens, dtype=bool), states)


@pytest.mark.parametrize("family", ["eagle", "eagle3"])
def test_each_step_is_a_depth_of_a_draft(
    family: str, target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.model.double()
    ids = [3, 7, 7, 12, 4, 9, 30, 2, 7, 7, 12]
    network, batch = made(family, target), batch_of(target, ids)
    recorded: list[torch.Tensor] = []
    inner = network.logits
    record = lambda states: recorded.append(inner(states)) or recorded[-1]
    monkeypatch.setattr(network, "logits", record)
    unrolled_loss(network, batch, weights.head(target), UNROLLING)
    monkeypatch.undo()
    drafter: Any = (Eagle if family == "eagle" else Eagle3)("untrained")
    drafter.bind(target)
    drafter._network = network
    drafter._start()
    for length in range(2, len(ids)):
        ahead = ids[length : length + STEPS]
        chance = ForcedChance(ahead, SampledChance.seeded(0))
        sampling = Sampling(temperature=1.0)
        pen = new_pen(chance, sampling=sampling, vocab_size=31, gamma=len(ahead), more=chance.more)
        features = {name: rows[0, : length - 1] for name, rows in batch.states.items()}
        drafter.propose(Context(Tokens(ids, length), None, features), pen)
        draft = pen.sheet.finish()
        assert len(draft) == len(ahead)
        for depth, logits in enumerate(draft.logits):
            torch.testing.assert_close(logits, recorded[depth][length - 2], rtol=1e-6, atol=1e-6)


def test_the_loss_is_the_mean_of_its_steps(target: Any) -> None:
    network, head = made("eagle", target), weights.head(target)
    batch = batch_of(target, [3, 7, 7, 12, 4, 9, 30, 2])
    one, two, decayed = (
        unrolled_loss(network, batch, head, replace(UNROLLING, **change)).item()
        for change in ({"steps": 1}, {"steps": 2}, {"steps": 2, "decay": 0.5})
    )
    second = 2 * two - one
    assert decayed == pytest.approx((one + 0.5 * second) / 1.5, rel=1e-5)


def test_only_the_targets_own_tokens_count(target: Any) -> None:
    network, head = made("eagle", target), weights.head(target)
    batch = batch_of(target, [3, 7, 7, 12, 4, 9, 30, 2])
    last = torch.zeros_like(batch.own)
    last[0, -1] = True  # its distribution is that of the state before it, at position 6
    one_step = replace(UNROLLING, steps=1)
    only = unrolled_loss(network, Batch(batch.ids, batch.best, last, batch.states), head, one_step)
    moved = {name: rows.clone() for name, rows in batch.states.items()}
    moved[HIDDEN][0, 3] += 1  # the layer reads it, so the loss changes, though it is not counted
    other = unrolled_loss(network, Batch(batch.ids, batch.best, last, moved), head, one_step)
    assert only.item() > 0
    assert other.item() != only.item()


def test_noise_and_detaching(target: Any) -> None:
    network, head = made("eagle", target), weights.head(target)
    batch = batch_of(target, [3, 7, 7, 12, 4, 9, 30, 2])

    def grad(**change: Any) -> torch.Tensor:
        network.zero_grad()
        torch.manual_seed(0)
        unrolled_loss(network, batch, head, replace(UNROLLING, steps=2, **change)).backward()
        gradient: torch.Tensor = network.fc.weight.grad.clone()
        return gradient

    plain = grad()
    assert torch.equal(plain, grad(noise=0.5))  # not training: no noise
    assert not torch.equal(plain, grad(detach=True))
    network.train()
    assert not torch.equal(plain, grad(noise=0.5))


def test_eagle_starts_as_the_best_matrix(target: Any) -> None:
    network = EagleNetwork.untrained(target, Vocabulary(target.vocab_size))
    table = weights.embedding(target).detach()
    width = table.shape[1]
    generator = torch.Generator().manual_seed(0)
    turn = torch.linalg.qr(torch.randn(width, width, generator=generator)).Q
    ids = torch.randint(0, 31, (40, 30), generator=generator)
    states = [torch.randn(40, width, generator=generator)]
    for position in range(1, 30):  # each state is linear in the one before and the token
        states.append(0.9 * states[-1] @ turn + embedding(ids[:, position], table) + 0.5)
    batch = Batch(ids, ids, ids >= 0, {HIDDEN: torch.stack(states, dim=1)})
    start_eagle(network, target, [batch])
    before, right = batch.states[HIDDEN][:, :-1], batch.states[HIDDEN][:, 1:]
    positions = torch.arange(29).expand(40, -1)
    out = network(before, ids[:, 1:], positions, None, KeysAndValues())
    assert (out - right).square().mean() < 1e-3 * right.var()
