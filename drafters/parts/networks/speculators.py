"""The layout of the speculators library, which vLLM loads: configs, vocabularies, mask tokens."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outrider.base.errors import ConfigError, message_of, require
from outrider.contract.target import Target
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.entries import Table, only, read_entries
from outrider.drafters.parts.networks.layer import LayerConfig
from outrider.drafters.parts.networks.vocabulary import Vocabulary

VERSION = "0.3.0"
"""The version of the library whose layout this is."""

LAYERS_KEY = "eagle_aux_hidden_state_layer_ids"
"""The entry of a config that names the states a network reads."""

OUTPUTS_KEY = "target_layer_ids"
"""The entry that names them in DeepSpec's configs."""

NESTED = "eagle_config"
"""The entry in which NVIDIA's and SpecForge's configs have some of the network's own."""

SPECULATORS = {
    "eagle3": "Eagle3Speculator",
    "peagle": "PEagleSpeculator",
    "dflash": "DFlashSpeculator",
}
"""The name of an algorithm's class in the library."""

SCALED = ("linear", "llama3", "yarn")
"""The types of scaled rotary positions that do not depend on the length of the text."""

DECODERS = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}
"""The class of the models whose decoder layers a network has, by their type."""


def config(
    algorithm: str, target: Target, decoder: Mapping[str, Any], vocabulary: int, tokens: int
) -> dict[str, Any]:
    """Returns the entries that `config.json` has for every algorithm, one of SPECULATORS.

    decoder, vocabulary: what `decoder_config` gives, and the number of tokens that are known.
    tokens: the default number of tokens of a draft, for servers.
    """
    name = str(getattr(target.model.config, "_name_or_path", "") or "")
    name = str(Path(name).resolve()) if name and Path(name).is_dir() else name
    return {
        "speculators_model_type": algorithm,
        "speculators_version": VERSION,
        "architectures": [SPECULATORS[algorithm]],
        "transformer_layer_config": dict(decoder),
        "draft_vocab_size": vocabulary,
        "target_hidden_size": int(target.model.config.get_text_config().hidden_size),
        "speculators_config": {
            "algorithm": algorithm,
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": tokens}],
            "default_proposal_method": "greedy",
            "verifier": {
                "name_or_path": name or None,  # from which readers take the target's tables
                "architectures": list(getattr(target.model.config, "architectures", None) or ()),
            },
        },
    }


def decoder_config(
    target: Target, layer: LayerConfig, model_type: str = "llama", layers: int = 1
) -> dict[str, Any]:
    """Returns transformers' config of decoder layers. model_type: one of DECODERS."""
    model = target.model.config.get_text_config()
    return {
        "model_type": model_type,
        "architectures": [DECODERS[model_type]],
        "num_hidden_layers": layers,
        **layer.entries(),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "vocab_size": target.vocab_size,
        "max_position_embeddings": getattr(model, "max_position_embeddings", None) or 2048,
    }


def read_decoder(folder: Path, stored: Mapping[str, Any], model_type: str = "qwen3") -> Any:
    """Returns the decoder layers' config, with the defaults of their own type of model.

    stored, model_type: the contents of `config.json`, and the type if it has none.

    Raises `ConfigError` if transformers can't read it, or the layers can't be run here.
    """
    from transformers import AutoConfig

    decoder = stored.get("transformer_layer_config") or stored
    entries = {name: value for name, value in decoder.items() if name != "model_type"}
    kind = decoder.get("model_type", model_type)
    if kind not in DECODERS and "llama" in str(decoder.get("architectures")).lower():
        kind = "llama"  # SpecForge's configs name the target's type
    require(kind in DECODERS, f"{folder}: model_type", kind, " or ".join(DECODERS))
    try:
        config: Any = AutoConfig.for_model(kind, **entries)
    except Exception as error:  # noqa: BLE001  its checks raise errors of many types
        reason = message_of(error)[:100]
        raise ConfigError(
            f"{folder}: config.json: expected the sizes of decoder layers ({reason})"
        ) from None
    rope = config.rope_parameters or {}
    kind, part = rope.get("rope_type", "default"), rope.get("partial_rotary_factor")
    is_valid = kind in ("default", *SCALED)
    require(is_valid, f"{folder}: rope_type", kind, f"default or {' or '.join(SCALED)}")
    by_layer = [name for name in rope if isinstance(rope[name], Mapping)]
    require(not by_layer, f"{folder}: rope_parameters", by_layer, "the same for every layer")
    require(part in (None, 1), f"{folder}: partial_rotary_factor", part, "1.0 in config.json")
    return config


def read_layer(folder: Path, target: Target, *, family: str, table: Table) -> dict[str, Any]:
    """Returns the fields that entries of a folder's config become, and the layer's sizes, `config`.

    These are the target's own if the config has none, as those of EAGLE-1 from here. What a config
    with sizes lacks has the defaults of its type of model, as in every other reader: EAGLE's own
    networks have rotary positions of base 10,000, whatever the target's.

    Raises `ConfigError` if it does not fit the target, or is for a network of another kind.
    """
    stored = weights.read_config(folder, target)
    is_bare = {"transformer_layer_config", "num_attention_heads"}.isdisjoint(stored)
    sizes = LayerConfig.like(target.model.config.get_text_config()).entries()
    decoder = read_decoder(folder, sizes | stored if is_bare else stored, "llama")
    table = {**table, **only(use_sliding_window=False)}
    fields = read_entries(folder, stored, family, table, decoder=decoder)
    return fields | {"config": layer_sizes(decoder)}


def layer_sizes(decoder: Any, inputs: int = 1) -> LayerConfig:
    """Returns the sizes of a network's decoder layers. decoder: their config, of transformers."""
    rope = decoder.rope_parameters or {}
    scaling = tuple(sorted((name, rope[name]) for name in rope if name != "rope_theta"))
    is_scaled = rope.get("rope_type") in SCALED
    return replace(LayerConfig.like(decoder, inputs), scaling=scaling if is_scaled else ())


def require_fit(folder: Path, decoder: Any, mask: int, target: Target) -> None:
    """Raises `ConfigError` if a network's layers or mask token do not fit the target."""
    weights.require_fit(folder, {"hidden_size": decoder.hidden_size}, target)
    is_valid = mask < target.vocab_size
    require(is_valid, f"{folder}: mask_token_id", mask, "one of the target's tokens")


def vocabulary_tensors(vocabulary: Vocabulary) -> dict[str, Tensor]:
    """Returns the tensors that stand for a vocabulary: none if all tokens are known."""
    if vocabulary.ids is None:
        return {}
    ids = vocabulary.ids.cpu()
    known = torch.zeros(vocabulary.size, dtype=torch.bool)
    known[ids] = True
    return {"d2t": ids - torch.arange(len(ids)), "t2d": known}


def mask_token(target: Target) -> int:
    """Returns the id of the token that stands for a mask, chosen as the library does.

    It is the tokenizer's own mask token. Without one it is an id that no token has, else the
    padding, else the end of a text, else the last id.
    """
    tokenizer = target.tokenizer
    if tokenizer is None:
        return target.vocab_size - 1
    spare = len(tokenizer) if len(tokenizer) < target.vocab_size else None
    choices = (tokenizer.mask_token_id, spare, tokenizer.pad_token_id, tokenizer.eos_token_id)
    known = [int(token) for token in choices if token is not None]
    return known[0] if known else target.vocab_size - 1


def layers_read(folder: Path, stored: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Returns the target's states that a checkpoint was trained on, as numbers of layers below.

    None stands for the default, which depends on the target: see `features.default_layers`. In
    the entries of SpecForge and NVIDIA, and of DeepSpec, a number stands for the output of a layer
    that is counted from 0.

    Raises `ConfigError` if the config names them twice, and not the same ones.
    """
    outputs = (stored.get(NESTED) or {}).get(LAYERS_KEY) or stored.get(OUTPUTS_KEY) or ()
    above = tuple(int(layer) + 1 for layer in outputs)
    layers = stored.get(LAYERS_KEY) or ()
    is_valid = not above or not layers or above == tuple(layers)
    require(is_valid, f"{folder}: {LAYERS_KEY}", layers, f"{above or None}, as the others say")
    return above or tuple(int(layer) for layer in layers) or None
