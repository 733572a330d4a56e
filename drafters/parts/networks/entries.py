"""The entries of published configs, declared as tables: what each becomes, and what it may be."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.base.bounds import check
from outrider.base.errors import require
from outrider.base.terminal import plain, remarks

WRITTEN = (
    "speculators_config", "speculators_model_type", "speculators_version", "draft_vocab_size",
    "transformer_layer_config", "target_hidden_size", "num_target_layers", "target_model_type",
    "target_model_name_or_path", "base_model_name_or_path", "hidden_size", "vocab_size",
    "auto_map", "torch_dtype", "tie_word_embeddings", "tokenizer_class",
)  # fmt: skip
"""Entries that libraries write for their own use, or that the tensors say too."""

CLOSED = {"LlamaForCausalLMEagle4": "an open licence: EAGLE-4's source may not be built upon"}
"""Architectures that are not written here, and why."""

DECODER: Mapping[str, Any] = {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False}
"""Entries of decoder layers, and the values that ours implement."""


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """How an entry of a config is read.

    field: the field of the family's own config that it becomes; "" for none.
    kind: the annotation of its value, as for a setting.
    default: what stands for a missing entry, and for null.
    only: the one value that the family's network implements; None for any.
    """

    field: str = ""
    kind: Any = Any
    default: Any = None
    only: Any = None


Table = Mapping[str, Entry]
"""The entries that a family knows, by name."""

ANY = Entry()
"""An entry that the family reads in its own way, or that says nothing of the network."""


def only(**values: Any) -> dict[str, Entry]:
    """Returns the entries with the one value that a network implements."""
    return {name: Entry(only=value) for name, value in values.items()}


def read_entries(
    folder: Path,
    stored: Mapping[str, Any],
    family: str,
    table: Table,
    *,
    decoder: Any = None,
    nested: str = "",
) -> dict[str, Any]:
    """Returns the fields of a family's own config, from the entries of a published one.

    An entry that nobody here has heard of may change what the network computes. A draft is lossless
    without it, but may not be the published one, so a line says which entries are not read.

    folder, stored, family: the checkpoint, the contents of its `config.json`, and its drafter.
    decoder: the config of its decoder layers, of transformers, if it has such layers.
    nested: the entry that holds some of the family's own, in other layouts.

    Raises `ConfigError` if an entry stands for a network of another kind.
    """
    from transformers import GenerationConfig, PreTrainedConfig

    kind = stored.get("speculators_model_type")
    require(kind in (None, family), f"{folder}: speculators_model_type", kind, repr(family))
    for name in stored.get("architectures") or ():
        require(name not in CLOSED, f"{folder}: architectures", [name], CLOSED.get(name, ""))
    inner, own = stored.get("transformer_layer_config") or {}, stored.get(nested) or {}
    known = {*WRITTEN, *table, nested}
    for config in (PreTrainedConfig, GenerationConfig):
        known |= config().to_dict().keys()
    unread = own.keys() - table.keys()
    if decoder is not None:
        for name, value in DECODER.items():
            found = getattr(decoder, name, value)
            require(found == value, f"{folder}: {name}", found, f"{value!r} in config.json")
        table = {**table, **only(target_hidden_size=decoder.hidden_size)}
        layers = {"rope_theta", "rope_scaling", *DECODER, *type(decoder)().to_dict()}
        unread |= inner.keys() - layers - known
        known |= set() if inner else layers
    unread |= stored.keys() - known
    if unread:
        line = f"{folder}: {family} does not read {', '.join(sorted(unread))} in config.json"
        remarks().print(plain(line, "yellow"), soft_wrap=True)
    return read_fields(folder, {**stored, **own}, table)


def read_fields(folder: Path, entries: Mapping[str, Any], table: Table) -> dict[str, Any]:
    """Returns the fields that entries become; raises `ConfigError` for a value out of bounds."""
    fields: dict[str, Any] = {}
    for name, entry in table.items():
        value, place = entries.get(name), f"{folder}: {name}"
        value = entry.default if value is None else value
        if entry.only is not None:
            is_valid = value in (None, entry.only)
            require(is_valid, place, value, f"{entry.only!r} in config.json")
        check({place: entry.kind}, {place: value})
        if entry.field:
            fields[entry.field] = value
    return fields
