"""A copy shares every tensor and replaces what it is told to, without a change to the original."""

import torch
from torch import nn

from outrider.targets.passes.first_layers import replace_modules


def test_only_the_parents_of_a_replaced_module_are_copied() -> None:
    model = nn.ModuleDict(
        {"kept": nn.Sequential(nn.Linear(2, 2)), "path": nn.Sequential(nn.ReLU())}
    )
    copied = replace_modules(model, lambda part: nn.Tanh() if isinstance(part, nn.ReLU) else None)
    assert copied is not model and copied["path"] is not model["path"]
    assert copied["kept"] is model["kept"]
    x = torch.tensor([-1.0])
    assert torch.equal(copied["path"](x), x.tanh()) and torch.equal(model["path"](x), x.relu())


def test_a_module_without_replacements_is_returned_itself() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    assert replace_modules(model, lambda _: None) is model
