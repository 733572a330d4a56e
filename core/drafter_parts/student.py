"""Students: small language models that read and write words by the target's own tables."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from outrider.contract.target import Target
from outrider.drafter_parts import checkpoint, weights
from outrider.runtime.linear import PackedLinear, pack
from outrider.runtime.ranks import is_sharded

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MARK = "tables"
"""The entry of a student's config that says whose its embeddings and head are."""


def borrows(folder: Path) -> bool:
    """Returns whether a folder holds a model without tables of its own."""
    place = folder / checkpoint.CONFIG
    if not place.is_file():
        return False
    found: object = json.loads(place.read_text())
    return isinstance(found, dict) and found.get(MARK) == "target"


def save(student: "PreTrainedModel", folder: Path, dtype: torch.dtype = torch.float16) -> None:
    """Writes a model's tensors but its tables, and its config with the mark."""
    kept = {
        name: tensor
        for name, tensor in student.state_dict().items()
        if name not in _tables(student)
    }
    config: dict[str, Any] = json.loads(student.config.to_json_string())
    config.pop("_name_or_path", None)
    checkpoint.save(folder, kept, {**config, MARK: "target"}, dtype)


def read(folder: Path, target: Target) -> "PreTrainedModel":
    """Returns the model in a folder, on the target's tables, ready.

    Raises:
        ConfigError: its sizes are not the target's, or a tensor does not fit, which is named.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    weights.fits(folder, checkpoint.read_config(folder), target)
    auto: Any = AutoModelForCausalLM
    config = AutoConfig.from_pretrained(folder)
    place, tensors = checkpoint.tensors_in(folder)
    with torch.device("meta"):
        names = _tables(auto.from_config(config))
    tables = dict(zip(names, _matrices(target), strict=True))
    made: Any = weights.untrained(lambda: auto.from_config(config), target, 0)
    checkpoint.fill(made, {**tensors, **tables}, place)
    if not is_sharded(target.model):  # the target's own, not a second copy of them
        made.set_input_embeddings(target.model.get_input_embeddings())
        made.set_output_embeddings(target.model.get_output_embeddings())
    if isinstance(made.get_output_embeddings(), PackedLinear):
        pack(made)
    student: PreTrainedModel = made
    return student


def _tables(model: "PreTrainedModel") -> list[str]:
    """Returns the names of the embeddings and the head among a model's tensors."""
    loose: Any = model
    tables = [id(loose.get_input_embeddings()), id(loose.get_output_embeddings())]
    names = {id(module): name for name, module in model.named_modules()}
    return [f"{names[each]}.weight" for each in tables]


def _matrices(target: Target) -> tuple[torch.Tensor, torch.Tensor]:
    return weights.embedding(target).detach(), weights.head(target).detach()
