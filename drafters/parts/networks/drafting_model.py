"""A language model that drafts: read from its hub id or folder, and run by the chosen engine."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from outrider.base.errors import require
from outrider.base.waiting import waiting
from outrider.contract.target import Target
from outrider.drafters.parts.networks import student, weights
from outrider.targets.loading import Dtype, load
from outrider.targets.passes.cached_model import SOURCE
from outrider.targets.passes.encoded import decoder_start
from outrider.targets.passes.engine import AUTO, NONE, require_engine, use_engine

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BUILT_IN = "smollm2"
"""The name of the model that comes with the package."""


def located(name: str) -> Path:
    """Returns the folder that a model's name stands for; it need not exist."""
    return weights.built_in("small_lm") if name == BUILT_IN else Path(name).expanduser()


@final
@dataclass(frozen=True)
class ModelSettings:
    """How a drafter loads and runs a model that it is given by name; each as for a target.

    Raises `ConfigError` if there is no engine with the name in `optimize`.
    """

    dtype: Dtype = "auto"
    device: str = "auto"
    optimize: str = AUTO
    quantize: str | None = None

    def __post_init__(self) -> None:
        require_engine(self.optimize, "drafter.optimize")

    @waiting("loading the draft model")
    def read(self, name: str, target: Target) -> "tuple[PreTrainedModel, Any]":
        """Returns the model with a name and its tokenizer, ready to draft.

        name: a hub id, a folder or "smollm2". A student's folder has the target's embeddings and
            head, and with `optimize` "auto" the target's engine.

        Raises:
            ConfigError: there is no such model, or the engine can't run or quantize it.
            TargetError: its weights are damaged.
        """
        folder = located(name)
        if student.borrows(folder):
            has_model = target.model is not None
            require(has_model, "drafter.model", name, "a target with a model of transformers")
            is_decoder = SOURCE not in target.offers
            require(is_decoder, "drafter.model", name, "an encoder-decoder, as the target is")
            model = student.read_student(folder, target, self.optimize, self.quantize)
            return model, target.tokenizer
        model, tokenizer = load(name, self.dtype, self.device)
        is_plain = self.optimize == AUTO and decoder_start(model)
        use_engine(model, NONE if is_plain else self.optimize, self.quantize, role="drafter")
        return model, tokenizer
