"""Before its first step, a network predicts whatever a matrix can."""

from typing import Any

import torch
from torch.nn.functional import embedding

from outrider.drafters.eagle import EagleNetwork
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training.initialisation import least_squares, start_eagle
from outrider.extras.training.states import Batch
from outrider.targets.passes.cached_model import HIDDEN


def test_least_squares_find_a_matrix() -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(3, 6, generator=generator)
    inputs = torch.randn(5000, 6, generator=generator)
    solution = least_squares([(inputs[:10], inputs[:10] @ matrix.T), (inputs, inputs @ matrix.T)])
    assert torch.allclose(solution, matrix, atol=0.01)


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
    batch = Batch(
        ids, ids, torch.ones_like(ids, dtype=torch.bool), {HIDDEN: torch.stack(states, dim=1)}
    )
    start_eagle(network, target, [batch])
    before, right = batch.states[HIDDEN][:, :-1], batch.states[HIDDEN][:, 1:]
    positions = torch.arange(29).expand(40, -1)
    out = network(before, ids[:, 1:], positions, None, KeysAndValues())
    assert (out - right).square().mean() < 1e-3 * right.var()
