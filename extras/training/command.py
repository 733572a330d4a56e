"""`outrider train`: trains a policy or a drafter by a recipe."""

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig

from outrider.base.errors import ConfigError
from outrider.base.folders import claimed
from outrider.base.interruption import advising
from outrider.base.terminal import remark
from outrider.cli.reports import chosen_reports, following
from outrider.contract.target import Target
from outrider.data.prompts import without_tools
from outrider.extras.training.card import origin
from outrider.extras.training.identity import (
    FILE,
    begin,
    finish,
    has_progress,
    identity,
    unfinished,
)
from outrider.extras.training.recipe import Job, Recipe
from outrider.extras.training.settings import Train
from outrider.plugins.config import build
from outrider.plugins.reading import plain_settings, set_arguments
from outrider.plugins.registry import installed

KEPT_FILES = ("file", "states")
"""The settings of a recipe that say where files are kept."""

PATH_SETTINGS = ("out=", "recipe.file=", "recipe.states=", "reports=")
"""Settings that are, or hold, paths on this machine: the record of the command leaves them out."""


def train(config: Train) -> None:
    """Runs the recipe, which prints what it wrote."""
    folder = Path(HydraConfig.get().runtime.output_dir)
    reports = chosen_reports(config.reports)
    recipe: Recipe = build(config.recipe)
    _check_family(config)
    target, name = build(config.target), config.target.get("model")
    prompts = without_tools(build(config.data))
    facts = identity(_deciding_settings(config), target, prompts)
    _say_what_is_unfinished(folder, facts)
    overrides = HydraConfig.get().overrides.task
    kept = [override for override in overrides if not override.startswith(PATH_SETTINGS)]
    with (
        claimed(folder),
        advising(lambda: _advice(folder)),
        following(reports, folder, plain_settings(config)),
    ):
        begin(folder, facts)
        made = recipe(
            Job(
                target=target,
                writer=partial(_writer, config, target),
                drafter=partial(build, config.drafter),
                verifier=build(config.verifier),
                sampling=build(config.sampling),
                prompts=prompts,
                chat=config.chat,
                openings=config.openings,
                question_tokens=config.question_tokens,
                gamma=config.gamma,
                max_new_tokens=config.max_new_tokens,
                draft_timeout=config.draft_timeout,
                command=" ".join(["outrider train", *kept]),
                origin=origin(target, str(name or config.target["_target_"].rpartition(".")[2])),
                folder=folder,
                out=Path(config.out).expanduser() if config.out else folder / "trained",
                log=reports.log,
            )
        )
        finish(folder)
    role = next(iter(made))
    told = [f"{role}.{name}={value}" for name, value in made.items() if name != role]
    remark(" ".join(["to use it:", f"{role}={made[role]}", *told]), stderr=False)


def _check_family(config: Train) -> None:
    """Raises `ConfigError` if another drafter was asked for than the recipe trains."""
    family = config.recipe.get("family")
    asked = [each for each in HydraConfig.get().overrides.task if each.startswith("drafter=")]
    trained = installed().of("drafter").get(family)
    if asked and trained is not None and trained.path != config.drafter["_target_"]:
        raise ConfigError(
            f"{asked[-1]}: expected drafter={family}, which the recipe trains, or no drafter"
        )


def _writer(config: Train, target: Target) -> Target:
    """Returns the target that writes the texts, with the settings in `writer` if there are any."""
    if config.writer is None:
        return target
    node = config.target.copy()
    set_arguments(node, config.writer, "writer")
    writer: Target = build(node)
    return writer


def _deciding_settings(config: Train) -> dict[str, Any]:
    """Returns the settings that decide the result: all but paths that are written to."""
    settings = plain_settings(config)
    del settings["reports"]
    recipe = {name: value for name, value in settings["recipe"].items() if name not in KEPT_FILES}
    return {**settings, "recipe": recipe, "out": None, "draft_timeout": None}


def _advice(folder: Path) -> str | None:
    if not has_progress(folder):
        return None
    setting = shlex.quote(f"hydra.run.dir={folder}")
    return f"the same command with {setting} continues where this one ended"


def _say_what_is_unfinished(folder: Path, facts: Mapping[str, Any]) -> None:
    """Prints how to continue the newest run of the same settings, if it is unfinished."""
    path = None if (folder / FILE).is_file() else unfinished(folder.parent, facts)
    if path is not None:
        setting = shlex.quote(f"hydra.run.dir={path}")
        remark(f"an unfinished run of this command is in {path}: {setting} continues it")
