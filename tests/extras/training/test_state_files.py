"""States in files of speculators are the target's, in whatever precision, and checked as such."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from outrider import ConfigError
from outrider.extras.training.generated_texts import Text
from outrider.extras.training.state_files import (
    find_state_files,
    read_state_files,
    state_path,
    write_state_file,
)
from outrider.extras.training.states import BEST, Examples
from outrider.targets.passes.cached_model import HIDDEN

NAMES = (HIDDEN, f"{HIDDEN}.4", f"{HIDDEN}.2")
LAYERS = [2, 4]
SMALLER = {torch.bfloat16: 0.05, torch.float8_e4m3fn: 0.1, torch.float32: 1e-5}
"""How far from the target's the states of each precision are at most."""


def states_before_norms(model: Any, ids: list[int]) -> list[torch.Tensor]:
    """Returns the states before each layer, and those after the last one, without its norm."""
    found: list[torch.Tensor] = []
    decoder = model.get_decoder()
    parts = [*decoder.layers, decoder.norm]
    hooks = [part.register_forward_pre_hook(lambda _, x: found.append(x[0][0])) for part in parts]
    with torch.no_grad():
        model(torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    return found


def write_as_vllm_does(
    folder: Path, number: int, model: Any, ids: list[int], dtype: torch.dtype
) -> None:
    """Writes what vLLM's connector for hidden states writes, or that of hs-connectors (fp8)."""
    every = states_before_norms(model, ids)
    states = torch.stack([every[layer] for layer in (*LAYERS, len(every) - 1)], dim=1)
    tensors = {"token_ids": torch.tensor(ids)}
    if dtype is torch.float8_e4m3fn:
        scales = states.abs().amax(dim=(1, 2), keepdim=True) / torch.finfo(dtype).max
        tensors["hidden_states_scales"] = scales
        states = states / scales
    folder.mkdir(exist_ok=True)
    save_file(tensors | {"hidden_states": states.to(dtype)}, folder / f"hs_{number}.safetensors")


def is_right(examples: Examples, target: Any, within: float) -> bool:
    for batch in examples.batches(1, 0):
        with torch.no_grad():
            output = target.model(batch.ids, output_hidden_states=True)
        for name in NAMES:
            right = output.hidden_states[int(name.partition(".")[2] or -1)]
            if (batch.states[name].float() - right).abs().max() > within * right.abs().max():
                return False
        if within < 1e-3 and not torch.equal(batch.best, output.logits.argmax(-1)):
            return False
    return True


@pytest.mark.parametrize("dtype", SMALLER)
def test_files_of_vllm_hold_the_states_of_the_target(
    dtype: torch.dtype, target: Any, texts: list[Text], tmp_path: Path
) -> None:
    for number, text in enumerate(texts[:4]):
        write_as_vllm_does(tmp_path / "hidden_states", number, target.model, text.ids, dtype)
    folder = find_state_files([None, str(tmp_path)])
    assert folder == tmp_path / "hidden_states" == find_state_files([str(folder)])
    examples = read_state_files(target, texts[1:4], NAMES, folder, first=1)
    assert is_right(examples, target, SMALLER[dtype])
    last = read_state_files(target, texts[1:4], NAMES[:1], folder, first=1).read(2)
    assert last.keys() == {BEST, HIDDEN}  # whatever other layers there are


def test_a_file_that_is_written_has_vllms_tensors(
    target: Any, texts: list[Text], tmp_path: Path
) -> None:
    write_as_vllm_does(tmp_path / "its", 0, target.model, texts[0].ids, torch.float32)
    write_state_file(target, texts[0].ids, LAYERS, tmp_path / "hs_0.safetensors")
    own, right = (load_file(folder / "hs_0.safetensors") for folder in (tmp_path, tmp_path / "its"))
    assert own.keys() == right.keys()
    for name, tensor in right.items():
        assert own[name].dtype == tensor.dtype
        torch.testing.assert_close(own[name], tensor, rtol=1e-5, atol=1e-5)
    assert is_right(read_state_files(target, texts[:1], NAMES, tmp_path, 0), target, 1e-5)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"token_ids": torch.tensor([3, 4])}, "token_ids are those of another text than row 0"),
        ({"hidden_states": None}, "expected a tensor hidden_states"),
        ({"hidden_states": 2}, r"2 states for each token: expected 3, hidden_states\.2, hidden"),
        ({"hidden_states": [0, 1, 1]}, r"hidden_states is \d+% away from the target's"),
        ({"hidden_states": [1, 1, 2]}, r"hidden_states\.2 is \d+% away from the target's"),
    ],
)
def test_other_states_are_refused(
    change: dict[str, Any], line: str, target: Any, texts: list[Text], tmp_path: Path
) -> None:
    write_as_vllm_does(tmp_path, 0, target.model, texts[0].ids, torch.float32)
    path = state_path(tmp_path, 0)
    tensors = load_file(path)
    for name, value in change.items():
        if value is None:
            del tensors[name]
        elif isinstance(value, torch.Tensor):
            tensors[name] = value
        else:
            places = list(range(value)) if isinstance(value, int) else value
            tensors[name] = tensors[name][:, places].contiguous()
    save_file(tensors, path)
    with pytest.raises(ConfigError, match=rf"hs_0\.safetensors: .*{line}"):
        read_state_files(target, texts[:1], NAMES, tmp_path, 0)


def test_a_missing_file_is_named(target: Any, texts: list[Text], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"hs_5\.safetensors: expected the states of a row"):
        read_state_files(target, texts[:1], NAMES, tmp_path, first=5)
    assert find_state_files([str(tmp_path), None]) is None
