"""The data of speculators: texts, counts of tokens, and the target's states in files."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import linear

from outrider.base.bounds import checked
from outrider.base.errors import ConfigError, is_int, refusing, require
from outrider.base.folders import replacing, write_whole
from outrider.base.terminal import remark
from outrider.base.waiting import tracked
from outrider.contract.target import Target
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.features import default_layers
from outrider.extras.training.corpus import TextRecipe
from outrider.extras.training.generated_texts import Text
from outrider.extras.training.recipe import Job
from outrider.extras.training.rows import SAVED
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

ARROW = "data-00000-of-00001.arrow"
INFO = "dataset_info.json"
FREQUENCIES = "token_freq.pt"
"""How often the target wrote each token, by id."""


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
    target: Target, texts: Sequence[Text], names: Sequence[str], folder: Path
) -> Examples:
    """Returns texts with the states in their files.

    The files do not say which layers they have: they must be those that are asked for, in the order
    of the layers. So the first file is compared with what the target computes.

    Raises `ConfigError` if a file is missing, damaged, or of another text, or has states of another
    target or of other layers.
    """
    layers = sorted({name for name in names if name != HIDDEN}, key=state_number)
    norm, head = last_norm(target.model), weights.head(target).detach()

    def place(number: int) -> Path:
        row = texts[number].row
        return state_path(folder, number if row is None else row)

    def read(number: int) -> Mapping[str, Tensor]:
        path = place(number)
        states = _load(path, texts[number].ids)
        if layers and states.shape[1] != len(layers) + 1:
            raise ConfigError(
                f"{path}: it has {states.shape[1]} states for each token: expected"
                f" {len(layers) + 1}, {', '.join(layers)} and the last"
            )
        last = norm(states[:, -1].to(head.device, head.dtype))
        best = linear(last, head[: target.vocab_size]).argmax(-1)
        named = {name: states[:, layer] for layer, name in enumerate(layers)}
        return {BEST: best.int().cpu(), HIDDEN: last.cpu(), **named}

    found, right = read(0), states_of(target, texts[0].ids, [HIDDEN, *layers])
    for name in (HIDDEN, *layers):
        gap = (found[name].float() - right[name].float()).norm() / right[name].float().norm()
        if not gap <= FARTHEST:
            raise ConfigError(
                f"{place(0)}: {name} is {gap:.0%} away from the target's: expected states of this"
                " target, of the layers that the drafter reads"
            )
    return Examples(texts, tuple(names), read)


def _load(path: Path, ids: list[int]) -> Float[Tensor, "tokens layers width"]:
    with refusing(f"{path}: expected the states of a row", SafetensorError, OSError):
        tensors = load_file(path)
    if missing := {STATES, IDS} - tensors.keys():
        raise ConfigError(f"{path}: expected a tensor {min(missing)}")
    if tensors[IDS].tolist() != ids:
        raise ConfigError(f"{path}: {IDS} are those of another text than row {path.stem[3:]}")
    if SCALES in tensors:
        return tensors[STATES].float() * tensors[SCALES]
    return tensors[STATES]


@torch.no_grad()
def write_state_file(target: Target, ids: list[int], layers: Sequence[int], path: Path) -> None:
    """Writes the target's states along a text. layers: those that precede the last ones."""
    model, before_norm = target.model, list[Tensor]()
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


@final
@checked("recipe")
@dataclass(frozen=True, kw_only=True)
class SpeculatorsData(TextRecipe):
    """Writes texts and states for `speculators train`, as speculators 0.9 prepares them.

    The folder is a data set of the datasets library with `input_ids`, `loss_mask` and `seq_len`,
    the number of times that each token was written, and each row's states. `recipe.rows` reads it.

    layers: the states that precede the last ones. Defaults to those that EAGLE-3 reads.
    """

    checks: ClassVar[str] = "outrider.extras.training.recipe_checks:DATA_CHECKS"

    layers: list[int] | None

    def __call__(self, job: Job) -> Mapping[str, Any]:
        layers = sorted(set(self.layers or default_layers(job.target)))
        count = int(job.target.model.config.get_text_config().num_hidden_layers)
        is_valid = all(0 <= layer < count for layer in layers)
        require(is_valid, "recipe.layers", layers, f"numbers from 0 to {count - 1}")
        split = self.split(job)
        write_data(job.out, job.target, [*split.held_out, *split.learned], layers)
        remark(job.out, stderr=False)
        return {"recipe.rows": str(job.out)}


def write_data(folder: Path, target: Target, texts: Sequence[Text], layers: Sequence[int]) -> None:
    """Writes texts, token counts and states. layers: of the states that precede the last ones."""
    write_rows(folder, texts)
    counts = Counter(token for text in texts for run in text.written for token in run)
    with replacing(folder / FREQUENCIES) as scratch:
        torch.save(dict(sorted(counts.items())), scratch)
    for number, text in enumerate(tracked(texts, "The target reads", len(texts))):
        write_state_file(target, text.ids, layers, state_path(folder / FOLDER, number))


def write_rows(folder: Path, texts: Sequence[Text]) -> None:
    """Writes texts as the datasets library saves a data set to a folder."""
    import pyarrow

    columns = {
        "input_ids": [text.ids for text in texts],
        "loss_mask": [[int(own) for own in text.own] for text in texts],
        "seq_len": [len(text.ids) for text in texts],
    }
    numbers = pyarrow.list_(pyarrow.int64())
    kinds = {"input_ids": numbers, "loss_mask": numbers, "seq_len": pyarrow.int64()}
    table = pyarrow.table(columns, schema=pyarrow.schema(kinds))
    with (
        replacing(folder / ARROW) as scratch,
        pyarrow.OSFile(str(scratch), "wb") as file,
        pyarrow.ipc.new_stream(file, table.schema) as stream,
    ):
        stream.write_table(table)
    write_whole(folder / INFO, "{}\n")
    state: dict[str, Any] = {
        "_data_files": [{"filename": ARROW}],
        "_fingerprint": "outrider",
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": "torch",
        "_output_all_columns": False,
        "_split": None,
    }
    write_whole(folder / SAVED, json.dumps(state, indent=1) + "\n")


def read_frequencies(path: Path, size: int) -> Tensor:
    """Returns the counts of all `size` tokens; raises `ConfigError` if a file holds none."""
    # Unpickling raises errors of many kinds.
    with refusing(f"{path}: expected the counts of tokens", Exception):
        found = torch.load(path, map_location="cpu", weights_only=True)
    is_valid = isinstance(found, Mapping) and all(
        is_int(token) and 0 <= token < size and is_int(count) for token, count in found.items()
    )
    if not is_valid:
        raise ConfigError(f"{path}: expected counts by token, below {size} as the target's are")
    counts = torch.zeros(size, dtype=torch.long)
    counts[torch.tensor([*found], dtype=torch.long)] = torch.tensor([*found.values()])
    return counts
