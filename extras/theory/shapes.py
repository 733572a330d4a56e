"""The shape of a decoder, from its config.json: how many weights a pass reads."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.base.errors import ConfigError

UNGATED = ("gpt2", "gpt_neox", "opt", "phi", "bloom", "falcon", "gptj", "starcoder2")
"""Types of models whose feed-forward layers have two matrices instead of three."""

BITS = {"float32": 32, "float16": 16, "bfloat16": 16, "float8": 8}
"""By type, the bits of a number."""

METHODS = {"fp8": 8.0, "mxfp4": 4.25, "compressed-tensors": 8.0}
"""By quantization method, the bits of a weight with its scales, where the config has no `bits`."""


@final
@dataclass(frozen=True, slots=True)
class Shape:
    """What decides the bytes and operations of a pass.

    head_size: numbers of an attention head. bits: of a weight in memory, scales included.
    dtype: the type that is computed in, which keys and values have too.
    extra: weights that a pass reads besides its layers and the output table.
    """

    layers: int
    hidden: int
    intermediate: int
    heads: int
    key_heads: int
    head_size: int
    vocabulary: int
    bits: float
    dtype: str
    matrices: int = 3
    extra: int = 0

    @property
    def layer_weights(self) -> int:
        """Returns the weights of the matrices of one layer."""
        attention = 2 * self.hidden * self.head_size * (self.heads + self.key_heads)
        return attention + self.matrices * self.hidden * self.intermediate

    @property
    def table_weights(self) -> int:
        """Returns the weights of the output table."""
        return self.hidden * self.vocabulary

    @property
    def cache_bytes(self) -> float:
        """Returns the bytes of the keys and values of one token."""
        return 2 * self.layers * self.key_heads * self.head_size * BITS[self.dtype] / 8


def read_shape(model: str, bits: float | None = None, dtype: str | None = None) -> Shape:
    """Returns the shape of a model: of a config.json, of a folder with one, or of a hub id.

    bits: of a weight; None for what the config says.
    dtype: that it computes in; None for the config's.

    Raises:
        ConfigError: there is no such config, or it is not that of a dense decoder.
    """
    return shape_of(_config(model), model, bits, dtype)


def shape_of(
    config: Mapping[str, Any], model: str, bits: float | None = None, dtype: str | None = None
) -> Shape:
    """Returns the shape that a config describes; see `read_shape`."""
    config = config.get("text_config") or config
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")
    other = {
        "num_hidden_layers": "n_layer",
        "hidden_size": "n_embd",
        "num_attention_heads": "n_head",
    }
    found = [config.get(name, config.get(other.get(name, ""))) for name in names]
    experts = config.get("num_experts", config.get("num_local_experts"))
    if None in found or experts:
        what = "experts" if experts else f"no {names[found.index(None)]}"
        raise ConfigError(f"model={model!r}: expected a dense decoder, its config has {what}")
    layers, hidden, heads, vocabulary = map(int, found)
    computed = dtype or str(config.get("dtype") or config.get("torch_dtype") or "bfloat16")
    if computed not in BITS:
        raise ConfigError(f"dtype={computed!r}: expected one of {', '.join(BITS)}")
    return Shape(
        layers=layers,
        hidden=hidden,
        intermediate=int(config.get("intermediate_size") or 4 * hidden),
        heads=heads,
        key_heads=int(config.get("num_key_value_heads") or heads),
        head_size=int(config.get("head_dim") or hidden // heads),
        vocabulary=vocabulary,
        bits=bits or _stored_bits(config) or BITS[computed],
        dtype=computed,
        matrices=2 if config.get("model_type") in UNGATED else 3,
    )


def _stored_bits(config: Mapping[str, Any]) -> float | None:
    """Returns the bits of a quantized weight, a scale of 16 bits for each group included."""
    stored: Mapping[str, Any] = config.get("quantization_config") or {}
    if "bits" in stored:
        group = int(stored.get("group_size") or 0)
        return int(stored["bits"]) + (16 / group if group > 0 else 0)
    if stored.get("load_in_4bit"):
        return 4.5
    return 8.0 if stored.get("load_in_8bit") else METHODS.get(str(stored.get("quant_method")))


def _config(model: str) -> Mapping[str, Any]:
    path = Path(model).expanduser()
    path = path / "config.json" if path.is_dir() else path
    if path.suffix == ".json":
        try:
            found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"model={model!r}: expected a config.json ({error})") from None
        return found
    from transformers import AutoConfig  # slow to import, and only a hub id needs it

    try:
        config: Mapping[str, Any] = AutoConfig.from_pretrained(model).to_dict()
    except (OSError, ValueError) as error:
        line = " ".join(str(error).split())
        expected = "a config.json, a folder with one, or a hub id"
        raise ConfigError(f"model={model!r}: expected {expected} ({line:.120})") from None
    return config
