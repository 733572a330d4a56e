"""Steps in bases are AdamW's steps on a network whose inputs are multiplied by the bases."""

from typing import Any

import pytest
import torch
from torch import nn

from outrider.extras.training.whitening import WhitenedAdamW, whitening_bases

RATE = 0.01


def inputs(count: int = 4000, most: float = 30.0) -> Any:
    """Returns rows of correlated entries, which vary most in a single direction."""
    generator = torch.Generator().manual_seed(1)
    free = torch.randn(count, 5, generator=generator, dtype=torch.float64)
    mixing = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    return free * torch.tensor([most, 1.0, 1.0, 0.5, 0.3], dtype=torch.float64) @ mixing


@pytest.fixture
def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 2)).double()


def bases_for(network: Any, rows: Any) -> Any:
    return whitening_bases(network, lambda batch: network(batch).sum(), [rows[:1000], rows[1000:]])


def test_a_basis_is_the_inverse_fourth_root_of_the_second_moment(network: Any) -> None:
    rows = inputs(most=3.0)
    basis = bases_for(network, rows)["0.weight"]
    assert set(bases_for(network, rows)) == {"0.weight", "2.weight"}
    assert torch.allclose(basis, basis.T)
    assert torch.linalg.det(basis).item() == pytest.approx(1.0, rel=1e-4)
    even = torch.linalg.matrix_power(basis, 4) @ (rows.T @ rows)
    assert torch.allclose(even / even[0, 0], torch.eye(5, dtype=torch.float64), atol=0.1)


def test_measuring_leaves_the_network_unchanged(network: Any) -> None:
    network[0].weight.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    network.train()
    assert set(bases_for(network, inputs(100))) == {"2.weight"}  # a frozen matrix has none
    assert network.training
    assert not any(layer._forward_pre_hooks for layer in network.modules())
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())


def test_steps_are_those_of_adamw_on_a_turned_network(network: Any) -> None:
    rows, wanted = inputs(64), torch.randn(64, 2, dtype=torch.float64)
    basis = torch.linalg.inv(torch.eye(5, dtype=torch.float64) + 0.1 * rows[:5] @ rows[:5].T)
    basis = (basis + basis.T) / 2
    other = nn.Sequential(nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    other.load_state_dict(network.state_dict())
    with torch.no_grad():
        other[0].weight.copy_(network[0].weight @ torch.linalg.inv(basis))
    whitened = WhitenedAdamW(network, {"0.weight": basis}, RATE)
    plain = torch.optim.AdamW(other.parameters(), lr=RATE, weight_decay=0.0, betas=(0.9, 0.95))
    for _ in range(6):
        for model, optimizer, x in ((network, whitened, rows), (other, plain, rows @ basis)):
            optimizer.zero_grad()
            (model(x) - wanted).square().mean().backward()
            optimizer.step()
    assert torch.allclose(network[0].weight, other[0].weight @ basis, rtol=1e-7)
    assert torch.allclose(network[2].weight, other[2].weight, rtol=1e-7)
