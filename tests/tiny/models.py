"""Tiny random models of every text class of transformers, with windows shorter than the texts."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import nn
from transformers import CONFIG_MAPPING, GenerationConfig
from transformers.models.auto import modeling_auto

from tiny.settings import BY_FIELD, BY_TYPE, NOT_TEXT, VARIANTS, VOCABULARY

DECODERS = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
ENCODER_DECODERS = modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
SILENT = 4
"""The first ids (padding, end, start and the like) are never a model's choice."""
LARGEST = 8_000_000
"""Parameters; a model with more has parts that no setting here makes small."""
SIZES = ((1.5, 0.3), (1.0, 1.0), (0.7, 1.0), (2.5, 0.3), (1.0, 0.1))
"""What matrices and embeddings are drawn with, by seed: some classes repeat themselves with one."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the sweep: a model class of transformers, and what a variant changes."""

    name: str
    model_type: str
    class_name: str
    settings: Mapping[str, Any] = field(default_factory=dict)


def entries() -> Iterator[Entry]:
    """Yields every decoder, every encoder-decoder, and then the variants."""
    for mapping in (DECODERS, ENCODER_DECODERS):
        for model_type, class_name in mapping.items():
            second = mapping is ENCODER_DECODERS and model_type in DECODERS
            yield Entry(model_type + " (seq2seq)" * second, model_type, class_name)
    for name, (model_type, settings) in VARIANTS.items():
        class_name = DECODERS.get(model_type) or ENCODER_DECODERS[model_type]
        yield Entry(name, model_type, class_name, settings)


ENTRIES = {entry.name: entry for entry in entries()}


def build(entry: Entry, seed: int = 0) -> Any:
    """Returns a random model in float32, ready to write.

    Raises whatever transformers raises for a class that can't be built, and `ValueError` for one
    that is not small.
    """
    if entry.model_type in NOT_TEXT:
        raise ValueError(NOT_TEXT[entry.model_type])
    config = configured(CONFIG_MAPPING[entry.model_type], entry)
    model_class = getattr(transformers, entry.class_name)
    if model_class.config_class is type(getattr(config, "text_config", None)):
        config = config.text_config  # as AutoModelForCausalLM does
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in model_class(config).parameters())
    if count > LARGEST:
        raise ValueError(f"its smallest form here has {count:,} parameters")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = model_class(config).float().eval()
        randomise(model, *SIZES[seed % len(SIZES)])
    if hasattr(model, "set_default_language"):
        model.set_default_language("en_XX")
    start = {**BY_FIELD, **entry.settings}["decoder_start_token_id"]
    start = start if model.config.is_encoder_decoder else None
    model.generation_config = GenerationConfig(
        pad_token_id=0, eos_token_id=1, bos_token_id=2, decoder_start_token_id=start
    )
    return model


def configured(config_class: Any, entry: Entry) -> Any:
    """Returns a tiny configuration, with tiny ones inside it where it is made of several."""
    names = {declared.name for declared in dataclasses.fields(config_class)}
    settings = {name: value for name, value in BY_FIELD.items() if name in names}
    model_type = config_class.model_type
    if entry.class_name in ENCODER_DECODERS.values():
        settings.pop("is_decoder", None)
    parts = set(getattr(config_class, "sub_configs", None) or ()) & names
    for name in parts - set(BY_TYPE.get(model_type, ())):
        part = getattr(config_class(), name, None)
        if part is not None:
            settings[name] = configured(type(part), entry)
    settings |= BY_TYPE.get(model_type, {})
    if model_type == entry.model_type:
        settings |= entry.settings
    return config_class(**settings)


def randomise(model: nn.Module, matrices: float, embeddings: float) -> None:
    """Draws a model's numbers so that every layer and every earlier token matters.

    matrices: the deviation of a matrix's products, given inputs of deviation 1.
    embeddings: the deviation of an embedding's entries.
    Vectors (norms, biases, sinks) move a little from where transformers starts them.
    """
    modules = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    tables = {id(module.weight) for module in modules}
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim < 2:
                parameter += 0.1 * torch.randn_like(parameter)
            elif id(parameter) in tables:
                parameter.normal_(0, embeddings)
            else:
                parameter.normal_(0, matrices / math.sqrt(min(parameter.shape[-2:])))
        head: Any = model.get_output_embeddings()  # type: ignore[operator]
        if getattr(head, "weight", None) is not None:
            head.weight[:SILENT] = 0
            if getattr(head, "bias", None) is not None:
                head.bias[:SILENT] = -5


def prompts() -> list[list[int]]:
    """Returns three prompts: one shorter than the windows between two longer ones."""
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(SILENT, VOCABULARY - 1, (40,), generator=draw).tolist()
    ids[20:26] = ids[3:9]  # for drafters that copy
    return [ids, ids[7:12], ids[15:38]]
