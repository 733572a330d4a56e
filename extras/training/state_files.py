"""The target's states in files of speculators: `hs_{i}.safetensors` for row `i` of a data set."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import linear

from outrider.base.errors import ConfigError, message_of
from outrider.base.folders import replacing
from outrider.contract.target import Target
from outrider.drafters.parts.networks import weights
from outrider.extras.training.generated_texts import Text
from outrider.extras.training.states import BEST, Examples, states_of
from outrider.targets.passes.cached_model import HIDDEN, state_number
from outrider.targets.passes.first_layers import last_norm
from outrider.targets.passes.placement import home

FOLDER = "hidden_states"
"""Where the files are in the folder of a data set."""

STATES, SCALES, IDS = "hidden_states", "hidden_states_scales", "token_ids"
"""The tensors of a file: the states [tokens, layers, width], the ids [tokens], and in a file of
eight bits the states' scales [tokens, 1, 1]. The last layer's states are those before its norm."""

FARTHEST = 0.25
"""The most that states may differ from the target's, relative to their norm: eight bits are .03."""


def state_path(folder: Path, number: int) -> Path:
    """Returns the file of a row's states."""
    return folder / f"hs_{number}.safetensors"


def find_state_files(folders: Sequence[str | None]) -> Path | None:
    """Returns the first of some folders that holds such files, itself or one level below."""
    for folder in (Path(folder).expanduser() for folder in folders if folder is not None):
        for place in (folder, folder / FOLDER):
            if next(place.glob("hs_*.safetensors"), None) is not None:
                return place
    return None


@torch.no_grad()
def read_state_files(
    target: Target, texts: Sequence[Text], names: Sequence[str], folder: Path, first: int
) -> Examples:
    """Returns texts with the states in their files.

    The files do not say which layers they have: they must be those that are asked for, in the order
    of the layers. So the first file is compared with what the target computes.

    first: the row of the first text.

    Raises:
        ConfigError: a file is missing, damaged, or of another text, or has states of another
            target or of other layers.
    """
    layers = sorted({name for name in names if name != HIDDEN}, key=state_number)
    norm, head = last_norm(target.model), weights.head(target).detach()

    def read(number: int) -> Mapping[str, Tensor]:
        path = state_path(folder, first + number)
        states = _load(path, texts[number].ids)
        if layers and states.shape[1] != len(layers) + 1:
            raise ConfigError(
                f"{path}: it has {states.shape[1]} states for each token: expected"
                f" {len(layers) + 1}, {', '.join(layers)} and the last"
            )
        last = norm(states[:, -1].to(head.device, head.dtype))
        best = linear(last, head[: target.vocab_size]).argmax(-1)
        named = {name: states[:, place] for place, name in enumerate(layers)}
        return {BEST: best.int().cpu(), HIDDEN: last.cpu(), **named}

    _compare(read(0), target, texts[0], [HIDDEN, *layers], state_path(folder, first))
    return Examples(texts, tuple(names), read)


def _load(path: Path, ids: list[int]) -> Float[Tensor, "tokens layers width"]:
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        line = message_of(error)
        raise ConfigError(f"{path}: expected the states of a row ({line})") from error
    if missing := {STATES, IDS} - tensors.keys():
        raise ConfigError(f"{path}: expected a tensor {min(missing)}")
    if tensors[IDS].tolist() != ids:
        raise ConfigError(f"{path}: {IDS} are those of another text than row {path.stem[3:]}")
    if SCALES in tensors:
        return tensors[STATES].float() * tensors[SCALES]
    return tensors[STATES]


def _compare(
    read: Mapping[str, Tensor], target: Target, text: Text, names: Sequence[str], path: Path
) -> None:
    right = states_of(target, text.ids, names)
    for name in names:
        gap = (read[name].float() - right[name].float()).norm() / right[name].float().norm()
        if not gap <= FARTHEST:
            raise ConfigError(
                f"{path}: {name} is {gap:.0%} away from the target's: expected states of this"
                " target, of the layers that the drafter reads"
            )


@torch.no_grad()
def write_state_file(target: Target, ids: list[int], layers: Sequence[int], path: Path) -> None:
    """Writes the target's states along a text, in its own precision.

    layers: transformers' numbers of the states that precede the last ones.
    """
    model: Any = target.model
    before_norm: list[Tensor] = []
    listen: Callable[..., None] = lambda _, inputs: before_norm.append(inputs[0])
    handle = last_norm(model).register_forward_pre_hook(listen)
    try:
        row = torch.tensor([ids], device=home(model))
        states = model.get_decoder()(row, output_hidden_states=True, use_cache=False).hidden_states
    finally:
        handle.remove()
    chosen = torch.stack([*(states[layer][0] for layer in layers), before_norm[0][0]], dim=1)
    with replacing(path) as scratch:
        save_file({STATES: chosen.cpu().contiguous(), IDS: torch.tensor(ids)}, scratch)
