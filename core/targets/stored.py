"""A GGUF file's model, with its matrices as they are stored, for an engine that packs them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn

from outrider.base.contents import json_in
from outrider.base.errors import ConfigError, TargetError
from outrider.base.pretrained import TRUST, Model, Tokenizer, read_pretrained
from outrider.base.terminal import remark
from outrider.targets import gguf
from outrider.targets.weight_files import check_counts, read_ahead

STORED = "stored"
"""The setting of `quantize` that keeps a file's weights as they are."""

KINDS = ("llama", "mistral", "qwen2", "qwen3")
"""The model types whose tensors are the file's, but for the order of rows in Llama's queries and
keys, whose neighbours rotate together there."""

FORMATS = {
    "Q4_0": 2,
    "Q4_1": 3,
    "Q5_0": 6,
    "Q5_1": 7,
    "Q8_0": 8,
    "Q4_K": 12,
    "Q5_K": 13,
    "Q6_K": 14,
}
"""The formats of matrices, with their numbers in files."""

NUMBERS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""The formats that need no packing; they are widened to float32."""

INDEX = "stored.json"
"""The file in a kept folder that says where each tensor lies."""


@final
@dataclass(frozen=True, slots=True)
class StoredMatrix:
    """A matrix [outputs, inputs] in blocks of a GGUF file.

    form: their format, such as "Q4_K". blocks: bytes [outputs, bytes of an output].
    """

    form: str
    blocks: Tensor
    inputs: int


def stored_matrix(layer: nn.Module) -> StoredMatrix | None:
    """Returns the matrix of a layer or table that `load_stored` made; it has no weight instead."""
    found: StoredMatrix | None = layer.__dict__.get(STORED)
    return found


def load_stored(weights: Path, setting: str) -> tuple[Model, Tokenizer]:
    """Returns a file's model and its tokenizer; matrices lie in the file, which stays mapped.

    The first call with a file writes its config and tokenizer to a folder in the user's cache.

    setting: the name of the setting that asks for it, for messages.

    Raises:
        ConfigError: the model is of another kind, or a matrix of another format.
        TargetError: tensors are missing, or of other shapes.
    """
    from transformers import AutoConfig, AutoTokenizer

    def write(folder: Path) -> None:
        folder.mkdir()
        contents = gguf.reader()(weights)
        check_counts(
            {name: it.contents() for name, it in contents.fields.items() if "count" in name}
        )
        config = read_pretrained(AutoConfig, weights.parent, gguf_file=weights.name)
        index = _index(contents, config, f"{setting}={STORED!r}: expected null, {weights.name}")
        (folder / INDEX).write_text(json.dumps(index))
        (folder / gguf.PRECISION).write_text(gguf.precision(contents))
        config.save_pretrained(folder)
        tokenizer = read_pretrained(AutoTokenizer, weights.parent, gguf_file=weights.name)
        tokenizer.save_pretrained(folder)

    read_ahead([weights])
    folder = gguf.converted_once(weights, f"{STORED} {version('transformers')}", write)
    remark(f"{weights.name}: its weights of {(folder / gguf.PRECISION).read_text()} stay as stored")
    model = _empty(read_pretrained(AutoConfig, folder))
    base = model.base_model
    base.rotary_emb = type(base.rotary_emb)(model.config)  # it has numbers of its own
    data = torch.from_file(str(weights), size=weights.stat().st_size, dtype=torch.uint8)
    for name, entry in json_in(folder / INDEX).items():
        _fill(model, name, data, entry)
    return model.eval(), read_pretrained(AutoTokenizer, folder)


def _empty(config: Any) -> Any:
    """Returns a model whose parameters have no numbers yet."""
    from transformers import AutoModelForCausalLM

    auto: Any = AutoModelForCausalLM
    with torch.device("meta"):
        return auto.from_config(config, **{TRUST: False}, dtype=torch.float32)


def _index(contents: Any, config: Any, expected: str) -> dict[str, dict[str, Any]]:
    """Returns where each parameter of a model lies in its file, as `_fill` takes it.

    expected: how messages begin, with the file's name.
    """
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    kind = contents.fields["general.architecture"].contents()
    if config.model_type not in KINDS:
        raise ConfigError(f"{expected} is of {kind}: stored weights run in {', '.join(KINDS)}")
    number = next(number for number, name in MODEL_ARCH_NAMES.items() if name == kind)
    names = get_tensor_name_map(number, config.num_hidden_layers)
    tensors = {tensor.name: tensor for tensor in contents.tensors}
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    index, first = dict[str, dict[str, Any]](), dict[int, str]()
    for full, parameter in _empty(config).named_parameters(remove_duplicate=False):
        part, _, suffix = full.rpartition(".")
        name = first.setdefault(id(parameter), f"{names.get_name(part)}.{suffix}")
        tensor: Any = tensors.get(name)
        shape = [] if tensor is None else [int(size) for size in reversed(tensor.shape)]
        if shape != [*parameter.shape]:
            raise TargetError(f"{expected} has {name} of {shape}, not {[*parameter.shape]}")
        form = tensor.tensor_type.name
        if form not in FORMATS | NUMBERS:
            raise ConfigError(f"{expected} has {name} in {form}, not {', '.join(FORMATS)}")
        index[full] = {
            "form": form,
            "start": int(tensor.data_offset),
            "size": int(tensor.n_bytes),
            "shape": shape,
            "heads": heads.get(name.split(".")[-2], 0) if kind == "llama" else 0,
        }
    return index


def _fill(model: nn.Module, name: str, data: Tensor, entry: Mapping[str, Any]) -> None:
    """Sets a parameter: to its numbers, or to none where they are blocks."""
    shape, heads, start = entry["shape"], entry["heads"], entry["start"]
    rows = data[start : start + entry["size"]].view(shape[0], -1)
    if heads:
        rows = rows.view(heads, -1, 2, rows.shape[1]).transpose(1, 2).reshape(rows.shape)
    owner, _, own = name.rpartition(".")
    module = model.get_submodule(owner)
    if (dtype := NUMBERS.get(entry["form"])) is not None:
        numbers = rows.view(dtype).view(shape).float()
        module.register_parameter(own, nn.Parameter(numbers, requires_grad=False))
    else:
        module.register_parameter(own, None)
        module.__dict__[STORED] = StoredMatrix(entry["form"], rows, shape[-1])
