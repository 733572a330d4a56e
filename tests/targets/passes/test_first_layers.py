"""Early exit runs just the first layers of any model, or refuses in one line."""

import threading
from typing import Any

import pytest
import torch
from tiny.models import ENTRIES, build
from tiny.subject import written
from torch import nn

from outrider import ConfigError
from outrider.extras.cpu.packed_linear import can_pack
from outrider.targets.passes.engine import use_engine
from outrider.targets.passes.first_layers import first_layers, replace_modules
from outrider.targets.transformers import TransformersTarget

CUT = ("gpt2", "gpt_neox", "opt", "falcon", "gptj", "codegen", "mpt", "gemma3n_text", "bert")


def names_run(model: Any, ids: list[int]) -> set[str]:
    """Returns the names of the modules that a pass runs."""
    ran: set[str] = set()
    hooks = [
        module.register_forward_pre_hook(lambda *_, name=name: ran.add(name))
        for name, module in model.named_modules()
    ]
    with torch.no_grad():
        model(input_ids=torch.tensor([ids]), use_cache=False)
    for hook in hooks:
        hook.remove()
    return ran


@pytest.mark.parametrize("name", CUT)
def test_just_the_first_layers_run(name: str) -> None:
    model = build(ENTRIES[name])
    before = {key: tensor.data_ptr() for key, tensor in model.state_dict().items()}
    text = written(model, [5, 6, 7, 8, 9])
    short = first_layers(model, 1)
    assert {tensor.data_ptr() for tensor in short.state_dict().values()} <= set(before.values())
    layers = {key for key in names_run(model, [9, 8]) if key.rpartition(".")[2] in ("0", "1", "3")}
    few = names_run(short, [9, 8])
    last = [key for key in layers if key.endswith((".layers.3", ".h.3", ".blocks.3", ".layer.3"))]
    assert last and not few & set(last)
    assert few & {key[:-1] + "0" for key in last}
    # The model itself is as it was.
    assert before == {key: tensor.data_ptr() for key, tensor in model.state_dict().items()}
    assert written(model, [5, 6, 7, 8, 9]) == text


def test_a_packed_model_is_cut(llama: Any) -> None:
    model = llama()
    ids = torch.tensor([[3, 4, 5]])
    with torch.no_grad():
        right = first_layers(model, 2)(ids).logits
        if can_pack(model):
            use_engine(model, "packed")
        assert torch.allclose(first_layers(model, 2)(ids).logits, right, atol=1e-4)


def test_a_layer_that_fills_two_layers_of_the_cache_is_one() -> None:
    model = build(ENTRIES["longcat_flash"])
    assert model.config.num_hidden_layers == 8
    short = first_layers(model, 1)
    assert len(short.model.layers) == 1
    assert short.config.num_hidden_layers == 2
    with pytest.raises(ConfigError, match="fewer than the target's 4 layers"):
        first_layers(model, 4)
    offers = TransformersTarget(model).offers
    assert {"hidden_states.3"} == {name for name in offers if name[-2:] in (".3", ".4", ".7")}


@pytest.mark.parametrize("name", ["hrm_text", "xlm"])
def test_models_that_can_not_be_cut_are_refused(name: str) -> None:
    model = build(ENTRIES[name])
    with pytest.raises(ConfigError, match=r"drafter.layers=1: .* can't be cut after its first lay"):
        first_layers(model, 1)


def test_a_cut_is_checked_while_another_thread_runs_the_same_model(llama: Any) -> None:
    model, ids = llama(), torch.tensor([[3, 4]])
    threads = list[threading.Thread]()

    def run_beside(*_: Any) -> None:
        if not threads:
            threads.append(threading.Thread(target=lambda: model(input_ids=ids)))
            threads[0].start()
            threads[0].join()

    hook = model.model.layers[0].register_forward_pre_hook(run_beside)
    first_layers(model, 1)
    hook.remove()
    assert threads


def test_only_the_parents_of_a_replaced_module_are_copied() -> None:
    model = nn.ModuleDict(
        {"kept": nn.Sequential(nn.Linear(2, 2)), "path": nn.Sequential(nn.ReLU())}
    )
    copied = replace_modules(model, lambda part: nn.Tanh() if isinstance(part, nn.ReLU) else None)
    assert copied is not model and copied["path"] is not model["path"]
    assert copied["kept"] is model["kept"]
    x = torch.tensor([-1.0])
    assert torch.equal(copied["path"](x), x.tanh()) and torch.equal(model["path"](x), x.relu())
    assert replace_modules(model, lambda _: None) is model
