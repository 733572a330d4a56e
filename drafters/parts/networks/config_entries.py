"""The entries of published configs: what a network implements is read, all else is refused."""

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from outrider.base.errors import ConfigError, require, similar

# fmt: off
WRITTEN = (
    "speculators_config", "speculators_model_type", "speculators_version",
    "transformer_layer_config", "draft_vocab_size", "target_hidden_size", "num_target_layers",
    "target_model_type", "target_model_name_or_path", "base_model_name_or_path",
)
"""Entries that libraries write for their own use, or that the tensors say too."""

OLD = (
    "_name_or_path", "_attn_implementation_autoset", "add_cross_attention", "architectures",
    "auto_map", "bad_words_ids", "begin_suppress_tokens", "bos_token_id",
    "chunk_size_feed_forward", "cross_attention_hidden_size", "decoder_start_token_id",
    "diversity_penalty", "do_sample", "dtype", "early_stopping", "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id",
    "forced_eos_token_id", "has_no_defaults_at_init", "is_decoder", "is_encoder_decoder",
    "length_penalty", "max_length", "min_length", "model_type", "no_repeat_ngram_size",
    "num_beam_groups", "num_beams", "num_return_sequences", "output_attentions",
    "output_hidden_states", "output_scores", "prefix", "problem_type", "pruned_heads",
    "remove_invalid_values", "repetition_penalty", "return_dict_in_generate", "sep_token_id",
    "suppress_tokens", "task_specific_params", "temperature", "tf_legacy_loss",
    "tie_encoder_decoder", "tie_word_embeddings", "tokenizer_class", "top_k", "top_p",
    "torch_dtype", "torchscript", "transformers_version", "typical_p", "use_bfloat16", "use_cache",
)
"""Entries of transformers' older configs that change no output."""

LAYERS = (
    "max_window_layers", "pretraining_tp", "rope_scaling", "rope_theta", "sliding_window",
)
# fmt: on
"""Those of decoder layers, which transformers' newer configs replace."""

SIZES = ("hidden_size", "vocab_size")
"""The target's, which every network depends on."""

DECODER: dict[str, Any] = {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False}
"""Entries of decoder layers, and the values that ours implement."""


def require_known(
    folder: Path,
    stored: Mapping[str, Any],
    decoder: Any,
    *,
    family: str,
    own: Collection[str],
    expected: Mapping[str, Any],
    nested: str | None = None,
) -> None:
    """Raises `ConfigError` for an entry that stands for a network of another kind.

    An entry that nobody here has heard of may change what the network computes, so it is refused
    too. A draft would be lossless without it, but not the published one.

    An entry where nothing reads it is refused likewise: the family's own among those of decoder
    layers, or those of decoder layers beside them.

    folder, stored: the checkpoint, and the contents of its `config.json`.
    decoder: the config of its decoder layers, of transformers.
    family: the name of its drafter.
    own: the entries that the family reads.
    expected: entries that some configs have, and the value that the network implements. None, or
        no such entry, is always right.
    nested: the entry that holds some of the family's own, in other layouts.
    """
    from transformers import PreTrainedConfig

    kind = stored.get("speculators_model_type")
    require(kind in (None, family), f"{folder}: speculators_model_type", kind, f"{family!r}")
    layers = {*LAYERS, *type(decoder)().to_dict()}
    inner = stored.get("transformer_layer_config")
    outer = {*PreTrainedConfig().to_dict()} if inner else layers
    for entries, known, values in (
        (stored, {*own, *outer, *([nested] if nested else ())}, DECODER | dict(expected)),
        (inner or {}, layers, DECODER),
        (stored.get(nested or "") or {}, own, expected),
    ):
        values = {**values, "target_hidden_size": decoder.hidden_size}
        require_entries(folder, entries, family=family, own=known, expected=values)


def require_entries(
    folder: Path,
    entries: Mapping[str, Any],
    *,
    family: str,
    own: Collection[str],
    expected: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """The same for the entries of a network without decoder layers of transformers."""
    known = {*WRITTEN, *OLD, *SIZES, *own}
    for name, value in entries.items():
        if name in expected:
            is_valid = value in (None, expected[name])
            require(is_valid, f"{folder}: {name}", value, f"{expected[name]!r} in config.json")
        elif name not in known:
            hint = similar(name, known | set(expected))
            raise ConfigError(
                f"{folder}: {name}={value!r}: expected no such entry in config.json, since"
                f" {family} does not know what it stands for{hint}"
            )
