"""The shape of a decoder, from its config.json: how many weights a pass reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.base.errors import ConfigError, message_of
from outrider.base.json_values import json_in

UNGATED = ("gpt2", "gpt_neox", "opt", "phi", "bloom", "falcon", "gptj", "starcoder2")
"""Types of models whose feed-forward layers have two matrices instead of three."""

BITS = {"float32": 32, "float16": 16, "bfloat16": 16, "float8": 8}
"""By type, the bits of a number."""

METHODS = {"fp8": 8.0, "mxfp4": 4.25, "compressed-tensors": 8.0}
"""By quantization method, the bits of a weight with its scales, where the config has no `bits`."""

OTHER_KINDS = ("kv_lora_rank", "interleave_moe_layer_step", "layers_block_type")
"""Entries of configs whose layers have weights of other shapes than are counted here."""


@final
@dataclass(frozen=True, slots=True)
class Shape:
    """What decides the bytes and operations of a pass.

    head_size: numbers of an attention head. bits: of a weight in memory, scales included.
    dtype: the type that is computed in, which keys and values have too.
    extra: weights that a pass reads besides its layers and the output table.
    experts, chosen, expert_size: of a mixture's layer, its experts, how many each token takes, and
        the intermediate size of one. shared: that of what every token takes besides.
    dense_layers: how many layers of a mixture have no experts.
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
    experts: int = 0
    chosen: int = 0
    expert_size: int = 0
    shared: int = 0
    dense_layers: int = 0

    @property
    def layer_weights(self) -> int:
        """Returns the weights of the matrices of one layer without experts."""
        return self._attention + self.matrices * self.hidden * self.intermediate

    @property
    def _attention(self) -> int:
        return 2 * self.hidden * self.head_size * (self.heads + self.key_heads)

    @property
    def used_weights(self) -> float:
        """Returns the weights of the layers that one token is multiplied with."""
        return self._layers(self.chosen)

    def read_weights(self, tokens: int) -> float:
        """Returns the weights of the layers that a pass over some tokens reads."""
        return self._layers(self.touched(tokens))

    def touched(self, tokens: int) -> float:
        """Returns how many experts of a layer are taken by at least one of some tokens, on average.

        Each token takes `chosen` of them, any as likely as the others and whatever the others take
        (Huang et al. 2025, MoESD, arXiv 2505.19645): E (1 - (1 - K / E)^tokens). The tokens of one
        text take more of the same experts, so that fewer are read.
        """
        if not self.experts:
            return 0.0
        return self.experts * (1 - (1 - self.chosen / self.experts) ** tokens)

    def _layers(self, experts: float) -> float:
        """Returns the weights of all layers, with so many experts in each that has some."""
        mixtures = self.layers - self.dense_layers if self.experts else 0
        wide = self.shared + experts * self.expert_size
        mixture = self._attention + self.hidden * (self.experts + self.matrices * wide)
        return (self.layers - mixtures) * self.layer_weights + mixtures * mixture

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
        ConfigError: there is no such config, or it is not that of a decoder with plain attention.
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
    other_kind = next((name for name in OTHER_KINDS if config.get(name)), None)
    if None in found or other_kind:
        what = other_kind or f"no {names[found.index(None)]}"
        expected = "a decoder with plain attention, all layers alike"
        raise ConfigError(f"model={model!r}: expected {expected}, its config has {what}")
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
        **_mixture(config),
    )


def _mixture(config: Mapping[str, Any]) -> dict[str, int]:
    """Returns what a config says of experts; nothing if there are none."""

    def number(*names: str) -> int:
        return int(next((config[name] for name in names if config.get(name)), 0))

    experts = number("num_experts", "num_local_experts", "n_routed_experts")
    if not experts:
        return {}
    size = number("moe_intermediate_size", "intermediate_size")
    return {
        "experts": experts,
        "chosen": number("num_experts_per_tok", "experts_per_token", "moe_topk"),
        "expert_size": size,
        "shared": number("shared_expert_intermediate_size") or size * number("n_shared_experts"),
        "dense_layers": number("first_k_dense_replace") + len(config.get("mlp_only_layers") or ()),
    }


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
            found: Mapping[str, Any] = json_in(path)
        except (OSError, ValueError) as error:
            raise ConfigError(f"model={model!r}: expected a config.json ({error})") from None
        return found
    from transformers import AutoConfig  # slow to import, and only a hub id needs it

    try:
        config: Mapping[str, Any] = AutoConfig.from_pretrained(model).to_dict()
    except (OSError, ValueError) as error:
        line = message_of(error)
        expected = "a config.json, a folder with one, or a hub id"
        raise ConfigError(f"model={model!r}: expected {expected} ({line:.120})") from None
    return config
