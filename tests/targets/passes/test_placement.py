"""Models whose parts are on several devices, or on the disk, write the text of one in memory."""

from pathlib import Path
from typing import Any

import pytest
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from tiny.drafters import tokens_of

import outrider
from outrider import ConfigError, TargetError, decode
from outrider.drafters.small_lm import SmallLM
from outrider.plugins.parts import make
from outrider.targets.passes.placement import home, is_offloaded
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.token import Token
from tests.devices import ON_DISK, accelerator, moved

DRAFTS = [
    ({"drafter": "prompt_lookup"}, "token"),
    ({"drafter": "eagle", "path": "untrained", "tree": "top:2x2"}, "candidates"),
]
"""Chains that copy, and trees of a network that reads the model's states."""


def text(target: Any, drafter: Any, rule: str) -> list[int]:
    rounds = decode(
        target,
        make("drafter", drafter),
        make("verifier", rule),
        [3, 4, 5, 3, 4],
        gamma=3,
        budget=6,
        max_new_tokens=12,
    )
    return tokens_of(rounds)


@pytest.mark.parametrize(("drafter", "rule"), DRAFTS)
def test_weights_on_the_disk_write_the_same_text(folder: Path, drafter: Any, rule: str) -> None:
    whole = TransformersTarget(str(folder), optimize="none")
    parts = TransformersTarget(str(folder), device_map=ON_DISK)
    assert is_offloaded(parts.model)
    assert not is_offloaded(whole.model)
    assert home(parts.model) == home(whole.model)
    assert text(parts, drafter, rule) == text(whole, drafter, rule)
    assert parts.fingerprint() == whole.fingerprint()


def test_weights_on_the_disk_are_not_packed_and_not_cut(folder: Path) -> None:
    line = r"^target.optimize='packed': expected none, since accelerate moves its parts"
    with pytest.raises(ConfigError, match=line):
        TransformersTarget(str(folder), device_map=ON_DISK, optimize="packed")
    target = TransformersTarget(str(folder), device_map=ON_DISK)
    assert target.tested.layers == "it can't be cut after its first layers"
    assert TransformersTarget(target.model).fingerprint() is None  # its files are not known


@pytest.mark.parametrize(("drafter", "rule"), DRAFTS)
def test_layers_on_two_devices_write_the_same_text(llama: Any, drafter: Any, rule: str) -> None:
    model = llama()
    expected = text(TransformersTarget(model), drafter, rule)
    with accelerator() as device:
        add_hook_to_module(model, AlignDevicesHook("cpu", io_same_device=True))
        for number, layer in enumerate(model.model.layers):
            there = device if number == 1 else "cpu"
            moved(layer, there)
            hook = AlignDevicesHook(there, skip_keys=model._skip_keys_device_placement)
            add_hook_to_module(layer, hook)
        target = TransformersTarget(model)
        assert (target.tested.trees, target.tested.batches) == ("", "")
        assert text(target, drafter, rule) == expected


@pytest.mark.parametrize("part", ["", "model.layers.1", "lm_head"])
def test_weights_that_are_nowhere_are_one_line(llama: Any, part: str) -> None:
    whole, model = llama(), llama()
    model.get_submodule(part).to("meta")
    line = r"model LlamaForCausalLM has no numbers in \S+weight, .* meta device: expected a model"
    with pytest.raises(TargetError, match=line):
        TransformersTarget(model)
    target = TransformersTarget(whole)
    with pytest.raises(ConfigError, match=f"small_lm: {line}"):
        decode(target, SmallLM(model), Token(), [3, 4])


def test_no_part_takes_the_device_of_the_first_weight_for_that_of_the_input() -> None:
    """It is torch's meta device where that weight is on the disk."""
    root = Path(outrider.__file__).parent
    folders = [root, *(root.parent / name for name in ("drafters", "extras", "verifiers"))]
    files = {path for folder in folders for path in folder.rglob("*.py")}
    using = {path.name for path in files if "model.device" in path.read_text()}
    assert using == {"placement.py"}
