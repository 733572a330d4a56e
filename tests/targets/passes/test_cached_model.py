"""A cache retains the chosen rows, and refuses models whose states it can't roll back."""

from typing import Any

import pytest
import torch

from outrider import TargetError
from outrider.targets.passes.cached_model import CachedModel, refuse_stateful


def test_the_chosen_rows_are_retained(llama: Any) -> None:
    model = llama().double()
    cached, plain = CachedModel(model), CachedModel(model)
    mask = torch.zeros(1, 1, 3, 5, dtype=torch.float64)
    mask[..., 0, 3:] = mask[..., 1, [2, 4]] = mask[..., 2, [2]] = float("-inf")
    cached.feed([1, 2], 1)
    # 7 and 8 are siblings; 9 continues 8.
    cached.feed([7, 8, 9], 1, mask=mask, positions=torch.tensor([[2, 2, 3]]))
    cached.retain_rows(3, [1, 2])
    plain.feed([1, 2, 8, 9], 1)
    torch.testing.assert_close(cached.feed([3], 1), plain.feed([3], 1), rtol=1e-9, atol=1e-9)


def test_states_of_an_unknown_kind_are_refused(llama: Any) -> None:
    model = llama()
    model.config.layer_types = ["compressed_sparse_attention"] * len(model.model.layers)
    with pytest.raises(TargetError, match="LlamaForCausalLM: layers of compressed_sparse_"):
        refuse_stateful(model)


def test_a_model_declared_stateful_is_refused(llama: Any) -> None:
    model = llama()
    model._is_stateful = True
    with pytest.raises(TargetError, match="LlamaForCausalLM: a recurrent state can't be rolled"):
        CachedModel(model)
