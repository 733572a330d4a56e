"""The networks that can be trained, by name."""

from collections.abc import Callable, Mapping
from typing import Any

from outrider.base.errors import ConfigError, nearest
from outrider.contract.target import Target
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training.blocks import DFlashObjective
from outrider.extras.training.distill import DistillationObjective
from outrider.extras.training.exit_objective import ExitObjective
from outrider.extras.training.feature_objectives import (
    Eagle3Objective,
    EagleObjective,
    FalconObjective,
    MtpObjective,
)
from outrider.extras.training.head_objectives import (
    HydraObjective,
    MedusaObjective,
    MLPObjective,
    ReDrafterObjective,
)
from outrider.extras.training.learner import Learner, Objective, Setup
from outrider.extras.training.masked_states import PEagleObjective
from outrider.extras.training.parallel import ParallelObjective

FAMILIES: dict[str, Callable[..., Objective]] = {
    "medusa": MedusaObjective,
    "mlp_speculator": MLPObjective,
    "hydra": HydraObjective,
    "redrafter": ReDrafterObjective,
    "eagle": EagleObjective,
    "eagle3": Eagle3Objective,
    "peagle": PEagleObjective,
    "dflash": DFlashObjective,
    "mtp": MtpObjective,
    "falcon": FalconObjective,
    "early_exit": ExitObjective,
    "small_lm": DistillationObjective,
    "pard": ParallelObjective,
}


def make_learner(
    family: str, target: Target, vocabulary: Vocabulary, seed: int, options: Mapping[str, Any]
) -> Learner:
    """Returns a new network of a family, and how it learns.

    vocabulary: the tokens that it is to know.
    seed: of its random weights.
    options: the fields of the family's objective.

    Raises:
        ConfigError: the family is unknown, or an option makes no sense.
    """
    if family not in FAMILIES:
        raise ConfigError(f"recipe.family={family!r}: {nearest(family, list(FAMILIES))}")
    return FAMILIES[family](**options).learner(Setup(target, vocabulary, seed))
