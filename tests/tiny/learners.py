"""Networks in training, as their recipes make them."""

from collections.abc import Mapping
from typing import Any

from outrider.cli.usage import read_settings
from outrider.contract.target import Target
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training import learner
from outrider.extras.training.plugin import NETWORKS as FAMILIES

__all__ = ["FAMILIES", "make_learner"]


def make_learner(
    family: str, target: Target, vocabulary: Vocabulary, seed: int, options: Mapping[str, Any]
) -> learner.Learner:
    """Returns a new network by the objective in the family's recipe."""
    objective = read_settings(f"recipe/{family}").values["objective"]
    return learner.make_learner(objective, options, learner.Setup(target, vocabulary, seed))
