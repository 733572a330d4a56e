"""`outrider train`: trains a policy or a drafter by a recipe."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from outrider.plugins.config import build
from outrider.training.job import Job, Recipe

PATH_SETTINGS = ("out=", "recipe.file=", "recipe.states=")
"""Settings that are paths on this machine: the record of the command leaves them out."""


def train(config: DictConfig) -> None:
    """Runs the recipe, which prints what it wrote."""
    folder = Path(HydraConfig.get().runtime.output_dir)
    recipe: Recipe = build(config.recipe)
    recipe(
        Job(
            target=build(config.target),
            drafter=partial(build, config.drafter),
            verifier=build(config.verifier),
            sampling=build(config.sampling),
            prompts=build(config.data),
            chat=config.chat,
            openings=list(config.openings),
            question_tokens=config.question_tokens,
            gamma=config.gamma,
            max_new_tokens=config.max_new_tokens,
            command=_command_line(HydraConfig.get().overrides.task),
            folder=folder,
            out=Path(config.out).expanduser() if config.out else folder / "trained",
            console=Console(),
        )
    )


def _command_line(overrides: Iterable[str]) -> str:
    """Returns the command that was run, without the settings that are paths."""
    kept = (override for override in overrides if not override.startswith(PATH_SETTINGS))
    return " ".join(["outrider train", *kept])
