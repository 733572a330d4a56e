"""The layout of the speculators library, which vLLM loads: configs, vocabularies, mask tokens."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outrider.base.errors import ConfigError, require
from outrider.contract.target import Target
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.layer import LayerConfig
from outrider.drafters.parts.networks.vocabulary import Vocabulary

VERSION = "0.3.0"
"""The version of the library whose layout this is."""

NORM_FIRST = "norm_before_residual"
"""The entry of a config that says what the residual of an EAGLE-3 layer adds to."""

LAYERS_KEY = "eagle_aux_hidden_state_layer_ids"
"""The entry of a config that names the states a network reads."""

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
    """Returns the entries that `config.json` has for every algorithm.

    algorithm: one of SPECULATORS.
    decoder: the sizes of the decoder layers, see `decoder_config`.
    vocabulary: the number of tokens that the network knows.
    tokens: the default number of tokens of a draft, for servers.
    """
    # A hub id is of use elsewhere. Of a local folder, only the name is stored.
    name = str(getattr(target.model.config, "_name_or_path", "") or "")
    name = Path(name).name if Path(name).is_dir() else name
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
                "name_or_path": name,
                "architectures": list(getattr(target.model.config, "architectures", None) or ()),
            },
        },
    }


def decoder_config(
    target: Target, layer: LayerConfig, model_type: str = "llama", layers: int = 1
) -> dict[str, Any]:
    """Returns the sizes of a network's decoder layers, as a config of transformers.

    model_type: one of DECODERS. layers: how many there are.
    """
    model = target.model.config.get_text_config()
    rope: dict[str, Any] = {"rope_theta": layer.rope_theta}
    if layer.scaling:
        rope = {"rope_parameters": {**dict(layer.scaling), **rope}}
    return {
        "model_type": model_type,
        "architectures": [DECODERS[model_type]],
        "num_hidden_layers": layers,
        "hidden_size": layer.hidden_size,
        "intermediate_size": layer.intermediate_size,
        "num_attention_heads": layer.num_attention_heads,
        "num_key_value_heads": layer.num_key_value_heads,
        "head_dim": layer.head_dim,
        "rms_norm_eps": layer.rms_norm_eps,
        **rope,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "vocab_size": target.vocab_size,
        "max_position_embeddings": getattr(model, "max_position_embeddings", None) or 2048,
    }


def read_decoder(folder: Path, stored: Mapping[str, Any], model_type: str = "qwen3") -> Any:
    """Returns the decoder layers' config, with the defaults of their own type of model.

    folder, stored: the checkpoint, and the contents of its `config.json`.
    model_type: the type if the config has none.

    Raises:
        ConfigError: transformers can't read it, or the layers can't be run here.
    """
    from transformers import AutoConfig

    decoder = stored.get("transformer_layer_config") or stored
    entries = {name: value for name, value in decoder.items() if name != "model_type"}
    try:
        config: Any = AutoConfig.for_model(decoder.get("model_type", model_type), **entries)
    except Exception as error:  # noqa: BLE001  its checks raise errors of many types
        reason = " ".join(str(error).split())[:100]
        raise ConfigError(
            f"{folder}: config.json: expected the sizes of decoder layers ({reason})"
        ) from None
    rope = config.rope_parameters or {}
    kind, part = rope.get("rope_type", "default"), rope.get("partial_rotary_factor")
    is_valid = kind in ("default", *SCALED)
    require(is_valid, f"{folder}: rope_type", kind, f"default or {' or '.join(SCALED)}")
    require(part in (None, 1), f"{folder}: partial_rotary_factor", part, "1.0 in config.json")
    return config


def completed(stored: Mapping[str, Any], sizes: LayerConfig) -> dict[str, Any]:
    """Returns a config with the target's sizes for those that SafeAILab's layout lacks."""
    if "transformer_layer_config" in stored:
        return dict(stored)
    known = {name for name, value in stored.items() if value is not None}
    names = {"hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"}
    names |= {"rms_norm_eps", "rope_theta"}
    if not {"num_attention_heads", "hidden_size"} <= known:
        names.add("head_dim")
    if "rope_parameters" in known:
        names.remove("rope_theta")
    if "num_attention_heads" in known:
        names.remove("num_key_value_heads")
    missing = {name: getattr(sizes, name) for name in names - known}
    return {"num_hidden_layers": 1, **missing, **{name: stored[name] for name in known}}


def layer_sizes(decoder: Any, inputs: int = 1) -> LayerConfig:
    """Returns the sizes of a network's decoder layers. decoder: their config, of transformers."""
    rope = decoder.rope_parameters or {}
    scaling = tuple(sorted((name, rope[name]) for name in rope if name != "rope_theta"))
    is_scaled = rope.get("rope_type") in SCALED
    return replace(LayerConfig.like(decoder, inputs), scaling=scaling if is_scaled else ())


def take_vocabulary(tensors: dict[str, Tensor], size: int) -> Vocabulary:
    """Removes all but the network's own tensors, and returns the vocabulary that they describe.

    size: the size of the target's vocabulary.
    """
    shifts = tensors.pop("d2t", None)
    ids = None if shifts is None else torch.arange(len(shifts)) + shifts.long()
    for name in [name for name in tensors if name == "t2d" or name.startswith("verifier_")]:
        del tensors[name]
    return Vocabulary(size, ids)


def require_fit(folder: Path, decoder: Any, mask: int, target: Target) -> None:
    """Raises `ConfigError` if a network's layers or mask token do not fit the target."""
    weights.require_fit(folder, {"hidden_size": decoder.hidden_size}, target)
    is_valid = mask < target.vocab_size
    require(is_valid, f"{folder}: mask_token_id", mask, "one of the target's tokens")


def check_full_attention(folder: Path, decoder: Any) -> None:
    """Raises `ConfigError` if a layer's attention has a window."""
    types = sorted(set(getattr(decoder, "layer_types", None) or ()) - {"full_attention"})
    require(not types, f"{folder}: layer_types", types, "full_attention in every layer")


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


def layers_read(config: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Returns the target's states that a checkpoint was trained on.

    None stands for the default, which depends on the target: see `features.default_layers`.
    """
    inner = config.get("eagle_config") or {}
    layers = config.get(LAYERS_KEY) or inner.get(LAYERS_KEY)
    return tuple(int(layer) for layer in layers) if layers else None


def norm_first(folder: Path, stored: Mapping[str, Any]) -> bool:
    """Returns whether the residual of an EAGLE-3 layer adds to the normed state.

    Raises:
        ConfigError: the config is of the speculators library and does not say it.
    """
    value = stored.get(NORM_FIRST)
    if value is None and "speculators_model_type" in stored:
        raise ConfigError(
            f"{folder}: config.json names no {NORM_FIRST}: expected true or false, since the"
            " speculators library takes a missing entry as false, and vLLM as true"
        )
    return bool(value)
