"""A language model that drafts: read from its hub id or folder, and run by the chosen engine."""

from pathlib import Path
from typing import Any

from outrider.base.errors import ConfigError, TargetError, require
from outrider.base.pretrained import Model
from outrider.base.waiting import waiting
from outrider.contract.target import Target
from outrider.drafters.parts.networks import student, weights
from outrider.targets.loading import unpacked
from outrider.targets.model_settings import LOADED, OPTIONS, ModelSettings
from outrider.targets.passes.cached_model import SOURCE
from outrider.targets.passes.encoded import decoder_start
from outrider.targets.passes.engine import AUTO
from outrider.targets.passes.placement import home
from outrider.targets.self_test import SelfTest, self_test

BUILT_IN = "smollm2"
"""The name of the model that comes with the package."""
SHARED = "for a model that shares the target's embeddings"


def located(name: str) -> Path:
    """Returns the folder that a model's name stands for; it need not exist."""
    return weights.built_in("small_lm") if name == BUILT_IN else Path(name).expanduser()


def drafting_model(model: Any, settings: ModelSettings, target: Target) -> tuple[Model, Any]:
    """Returns a model and its tokenizer, None if there is none, ready to draft.

    model: a hub id, a folder, "smollm2", a target, or a loaded model, alone or with its tokenizer.

    Raises `ConfigError` if there is no such model, a setting says nothing of it, or its engine
    refuses it, and `TargetError` if its weights are damaged.
    """
    if isinstance(model, str):
        return _read(model, settings, target)
    if isinstance(model, Target):
        settings.refuse(where="for a target that is made already")
        return model.model, model.tokenizer
    settings.refuse(*OPTIONS, where=LOADED)
    model, tokenizer = unpacked(model, field="drafter.model")
    settings.run(model, is_own=False)
    return model, tokenizer


@waiting("loading the draft model")
def _read(name: str, settings: ModelSettings, target: Target) -> tuple[Model, Any]:
    """Returns the model with a name; a student's folder has the target's embeddings and head."""
    folder = located(name)
    if not student.borrows(folder):
        model, tokenizer = settings.load(name)
        settings.run(model)
        return model, tokenizer
    has_model = target.model is not None
    require(has_model, "drafter.model", name, "a target with a model of transformers")
    is_decoder = SOURCE not in target.offers
    require(is_decoder, "drafter.model", name, "an encoder-decoder, as the target is")
    settings.refuse(*OPTIONS, where=SHARED)
    dtype, device = str(target.model.dtype).removeprefix("torch."), home(target.model)
    for setting, value, own in (
        ("dtype", settings.dtype, (dtype,)),
        ("device", settings.device, (device.type, str(device))),
    ):
        is_shared = value in ("auto", *own)
        require(is_shared, f"drafter.{setting}", value, f"auto, or {own[-1]}, {SHARED}")
    is_free = settings.quantize == AUTO and name != BUILT_IN
    quantize = None if is_free else settings.quantize
    model = student.read_student(folder, target, settings.optimize, quantize)
    return model, target.tokenizer


def proved(model: Model, drafter: str) -> SelfTest:
    """Returns what holds for a model; raises `ConfigError` if its text would depend on drafts."""
    try:
        return self_test(model, decoder_start(model))
    except TargetError as error:
        raise ConfigError(f"drafter {drafter}: {error}") from None


PADDING = 1024
"""The most ids without a token that a vocabulary is padded with, for the sake of fast products."""


def require_same_vocabulary(model: Model, tokenizer: Any, target: Target, *, hint: str) -> None:
    """Raises `ConfigError` unless a model's token ids mean the same as the target's.

    tokenizer: the model's; None compares the sizes of the vocabularies, which may be padded.
    hint: what to do about it, for the end of the message.
    """
    model_size = int(model.config.get_text_config().vocab_size)
    sizes = f"its vocabulary has {model_size} tokens, the target's {target.vocab_size}"
    if tokenizer is None or target.tokenizer is None:
        both = {model_size, target.vocab_size}
        known = None if target.tokenizer is None else len(target.tokenizer)
        is_padded = known is not None and known <= min(both) <= max(both) <= known + PADDING
        if len(both) > 1 and not is_padded:
            loaded = "; with its tokenizer: drafter.model=(model, tokenizer)"
            raise ConfigError(f"the draft model does not fit the target: {sizes}{loaded}{hint}")
        return
    own, expected = tokenizer.get_vocab(), target.tokenizer.get_vocab()
    if own != expected:
        differing = sorted(own.items() ^ expected.items(), key=lambda item: item[1])
        raise ConfigError(
            f"the draft model does not fit the target: {sizes}, and their tokenizers disagree"
            f" on {len(differing)} entries, such as {differing[0][0]!r}{hint}"
        )
