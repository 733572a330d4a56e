"""GGUF files: a model with its tokenizer, dequantised; `python -m ... FILE FOLDER` converts one."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from outrider.base.errors import ConfigError


def read(weights: Path, dtype: Any = "float32") -> tuple[Any, Any, Any]:
    """Returns the plain model of a GGUF file, its tokenizer, and what transformers reports.

    Raises:
        ConfigError: the library that reads such files is not installed.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    _reader()
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        weights.parent,
        gguf_file=weights.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=dtype,
        output_loading_info=True,
    )
    model, report = loaded
    # With the settings of the GGUF file, a saved model could not be loaded.
    model.config.quantization_config = None
    del model.config.quantization_config
    plain = type(model)(model.config).to(model.dtype)
    plain.load_state_dict(model.state_dict())
    plain.generation_config = model.generation_config
    tokenizer = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    return plain, tokenizer, report


def precision(weights: Path) -> str:
    """Returns in how many bits the matrices of a GGUF file are stored, such as "4.5 bits (Q4_1)".

    The number is the mean over all matrices, the name is that of most of their entries.

    Raises:
        ConfigError: the library that reads such files is not installed.
    """
    kinds, entries, size = Counter[str](), 0, 0
    for tensor in _reader()(weights).tensors:
        if len(tensor.shape) > 1:
            kinds[tensor.tensor_type.name] += int(tensor.n_elements)
            entries += int(tensor.n_elements)
            size += int(tensor.n_bytes)
    (name, _), *_ = kinds.most_common(1) or [("none", 0)]
    return f"{8 * size / max(entries, 1):.3g} bits ({name})"


def _reader() -> Any:
    """Returns the class that reads GGUF files."""
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise ConfigError("model=FILE.gguf needs: pip install gguf") from error
    return GGUFReader


def convert(weights: Path, folder: Path) -> None:
    """Writes the dequantised float32 model and its tokenizer to a folder."""
    model, tokenizer, _ = read(weights)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
