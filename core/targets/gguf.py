"""GGUF files: a model with its tokenizer, dequantised; `python -m ... FILE FOLDER` converts one."""

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from outrider.base.errors import refusing
from outrider.base.folders import made_once
from outrider.base.pretrained import read_pretrained
from outrider.base.terminal import remark
from outrider.base.waiting import steps, waiting
from outrider.targets.weight_files import check_counts

PRECISION = "precision.txt"
"""The file in a kept folder that says in how many bits the weights were."""


def converted_folder(weights: Path, dtype: str) -> tuple[str, str]:
    """Returns the folder in the user's cache with a file's model, and what `precision` returns.

    dtype: the precision in which the model is kept, such as "float32".

    The first call with a file converts it, which takes far longer than to load the result. A file
    that has changed since is converted again.

    Raises `ConfigError` if the library that reads such files is not installed.
    """

    def write(folder: Path) -> None:
        convert(weights, folder, dtype)
        (folder / PRECISION).write_text(precision(reader()(weights)))

    folder = converted_once(weights, f"{dtype} {version('transformers')}", write)
    return str(folder), (folder / PRECISION).read_text()


def converted_once(weights: Path, how: str, write: Callable[[Path], None]) -> Path:
    """Returns the folder in the user's cache that a file was converted into, if need be now.

    how: what the result depends on beside the file. write: is given the folder.
    """
    status, path = weights.stat(), weights.resolve()
    identity = f"{path} {status.st_size} {status.st_mtime_ns} {how}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]

    def made(scratch: Path) -> Path:
        remark(f"{weights.name}: converting it once")
        with parsed_once():
            write(scratch / "model")
        return scratch / "model"

    return made_once(f"gguf/{weights.stem}-{digest}", made)


def read(weights: Path, dtype: str) -> tuple[Any, Any]:
    """Returns the plain model of a GGUF file in a precision, and its tokenizer.

    Raises `ConfigError` if the library that reads such files is not installed.
    """
    from transformers import (
        AutoModelForCausalLM,
        AutoTokenizer,
        GgufConfig,
        modeling_gguf_pytorch_utils,
    )

    fields = reader()(weights).fields.items()
    check_counts({name: it.contents() for name, it in fields if name.endswith("_count")})
    reading: Any = modeling_gguf_pytorch_utils
    own_bar = reading.tqdm
    reading.tqdm = lambda items, **_: steps(items)  # there is no switch, as other bars have
    try:
        model: Any = read_pretrained(
            AutoModelForCausalLM,
            weights.parent,
            gguf_file=weights.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=dtype,
        )
    finally:
        reading.tqdm = own_bar
    # With the settings of the GGUF file, a saved model could not be loaded.
    if quantizer := getattr(model, "hf_quantizer", None):
        quantizer.remove_quantization_config(model)
    tokenizer = read_pretrained(AutoTokenizer, weights.parent, gguf_file=weights.name)
    return model, tokenizer


def precision(contents: Any) -> str:
    """Returns in how many bits the matrices of a GGUF file are stored, such as "4.5 bits (Q4_1)".

    The number is the mean over all matrices, the name is that of most of their entries.

    contents: the file as `reader` reads it.
    """
    kinds, entries, size = Counter[str](), 0, 0
    for tensor in contents.tensors:
        if len(tensor.shape) > 1:
            kinds[tensor.tensor_type.name] += int(tensor.n_elements)
            entries += int(tensor.n_elements)
            size += int(tensor.n_bytes)
    (name, _), *_ = kinds.most_common(1) or [("none", 0)]
    return f"{8 * size / max(entries, 1):.3g} bits ({name})"


def reader() -> Any:
    """Returns the class that reads GGUF files."""
    with refusing("a GGUF file needs: pip install gguf", ImportError):
        from gguf import GGUFReader
    return GGUFReader


@contextmanager
def parsed_once() -> Iterator[None]:
    """Lets transformers, which parses a file for each of its parts, share what was parsed first."""
    own = reader()
    library: Any = import_module("gguf")
    parsed = cache(own)
    library.GGUFReader = lambda path: parsed(Path(path).resolve())
    try:
        yield
    finally:
        library.GGUFReader = own


@waiting("converting a GGUF file")
def convert(weights: Path, folder: Path, dtype: str = "float32") -> None:
    """Writes the dequantised model, in a precision, and its tokenizer to a folder."""
    model, tokenizer = read(weights, dtype)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    with parsed_once():
        convert(Path(sys.argv[1]), Path(sys.argv[2]))
