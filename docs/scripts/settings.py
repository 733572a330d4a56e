"""The page of all settings, made from the configs, the signatures and the docstrings."""

import inspect
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from pkgutil import resolve_name
from typing import Any

from docstrings import fields
from omegaconf import OmegaConf

import outrider
from outrider.cli.usage import GROUPS, read_settings
from outrider.extras.training.classifier import ClassifierRecipe
from outrider.extras.training.corpus import TextRecipe
from outrider.extras.training.drafters import DrafterRecipe
from outrider.extras.training.progress import Schedule
from outrider.plugins.entry import Entry
from outrider.plugins.options import option_schema
from outrider.plugins.presets import config_files
from outrider.plugins.registry import installed

ROLES = {
    "drafter": "Drafters",
    "verifier": "Acceptance rules",
    "policy": "Policies",
    "target": "Targets",
    "constraint": "Constraints",
    "data": "Prompts",
}
PRESETS = {
    "experiment": ("Experiments", "`+experiment=NAME` sets, for `outrider compare`:"),
    "paper": ("Papers", "`paper=NAME` sets, for `outrider theory`:"),
    "hydra/launcher": ("Launchers", "`hydra/launcher=NAME` runs the jobs of a sweep:"),
}

Row = tuple[str, Any, str]
"""A setting: its name, its default and what it means."""


def settings_page() -> str:
    """Returns the page of all settings, with their defaults and what they mean."""
    start = (
        "Every setting of every command and part, made from the configs and the signatures."
        " [Commands](commands.md) explains how to set them. A setting of a part is set as"
        " `drafter.order=3`, or in a list of drafters as `{drafter: bigram, order: 3}`."
        " Plugins add settings of their own: `outrider COMMAND --help-all` shows them, too."
    )
    recipes = yaml_options("recipe", "Recipes", "`recipe=NAME` chooses how to train.")
    sections = [commands(), parts(), sampling(), recipes, presets()]
    return "\n\n".join(["# Settings", start, *itertools.chain.from_iterable(sections)])


def commands() -> Iterator[str]:
    """Yields a section for each command: the settings of its config file."""
    yield "## Commands"
    for command in (name for name, each in installed().commands.items() if not each.plain):
        settings = read_settings(command)
        yield f"### {command}"
        yield "```text\n" + "\n".join(settings.examples) + "\n```"
        comments = settings.comments
        groups = [
            (name, option, f"{comments.get(name) or GROUPS.get(name, '')}; chosen by name")
            for name, option in settings.groups.items()
        ]
        values = [(name, value, comments.get(name, "")) for name, value in settings.values.items()]
        yield table([*groups, *values])


def parts() -> Iterator[str]:
    """Yields a section for each part that comes with the package, but for recipes."""
    for role, title in ROLES.items():
        yield f"## {title}"
        for name, entry in installed().of(role).items():
            if entry.distribution != "outrider":
                continue
            yield f"### {role}={name}"
            yield inspect.getdoc(entry.factory).split("\n\n")[0].replace("\n", " ")
            yield table(part_rows(entry))


def part_rows(entry: Entry) -> list[Row]:
    """Returns the settings of a part, as its docstring or that of its class explains them."""
    meanings: dict[str, str] = {}
    for owner in (*reversed(inspect.getmro(entry.product or object)), entry.factory):
        meanings |= fields(inspect.getdoc(owner) or "") if owner is not object else {}
    schema: Any = OmegaConf.to_container(option_schema(entry))
    return [(name, value, meanings.get(name, "")) for name, value in schema.items()]


def sampling() -> Iterator[str]:
    """Yields the section of the group `sampling`."""
    meanings = fields(inspect.getdoc(outrider.Sampling) or "")
    values = read_settings("sampling/greedy").values
    yield "## Sampling"
    yield "The defaults are those of `sampling=greedy`. Each other name changes a few of them."
    yield table((name, value, meanings.get(name, "")) for name, value in values.items())
    for name in options("sampling"):
        if name != "greedy":
            yield quoted("sampling", name)


def yaml_options(group: str, title: str, text: str) -> Iterator[str]:
    """Yields a section for each option of a group whose options are config files."""
    yield f"## {title}"
    yield text
    for name in options(group):
        settings = read_settings(f"{group}/{name}")
        meanings = (learning(settings.values) if group == "recipe" else {}) | settings.comments
        yield f"### {group}={name}"
        yield heading_comment(group, name)
        yield table((key, value, meanings.get(key, "")) for key, value in settings.values.items())


def learning(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns what the docstrings of the classes that a recipe configures say of its settings."""
    classes = [("", TextRecipe), ("", DrafterRecipe), ("schedule.", Schedule)]
    if values["_target_"].endswith("ClassifierRecipe"):
        classes = [("", ClassifierRecipe)]
    if "objective" in values:
        classes.append(("options.", resolve_name(values["objective"])))
    return {
        prefix + name: meaning
        for prefix, owner in classes
        for name, meaning in fields(inspect.getdoc(owner) or "").items()
    }


def presets() -> Iterator[str]:
    """Yields the options that set other settings: their files."""
    for group, (title, text) in PRESETS.items():
        yield f"## {title}"
        yield text
        for name in options(group):
            yield quoted(group, name)


def options(group: str) -> list[str]:
    """Returns the names of a group's config files."""
    return sorted(path.stem for path in map(PurePath, config_files()) if str(path.parent) == group)


def source(group: str, name: str) -> str:
    """Returns the text of a config file."""
    return config_files()[f"{group}/{name}.yaml"].read_text(encoding="utf-8")


def heading_comment(group: str, name: str) -> str:
    """Returns the comment at the top of a config file as a sentence."""
    head = re.match(r"(?:# .*\n)*", source(group, name))
    return " ".join(line[2:] for line in head[0].splitlines()) if head else ""


def quoted(group: str, name: str) -> str:
    """Returns a config file as a block of code, below its name."""
    return f"### {group}={name}\n\n```yaml\n{source(group, name)}```"


def table(rows: Iterable[Row]) -> str:
    """Returns the settings as a table that is folded, without what only Hydra reads."""
    shown = [row for row in rows if not row[0].startswith("_")]
    if not shown:
        return "It has no settings."
    lines = [
        f"| `{name}` | {default(value)} | {meaning.replace('|', chr(92) + '|')} |"
        for name, value, meaning in shown
    ]
    fold = f"<details markdown><summary>{len(lines)} setting{'s' * (len(lines) > 1)}</summary>\n"
    return "\n".join(
        [fold, "| setting | default | meaning |", "|---|---|---|", *lines, "\n</details>"]
    )


def default(value: Any) -> str:
    """Returns a default as it is typed on the command line."""
    return "required" if value == "???" else f"`{typed(value)}`"


def typed(value: Any) -> str:
    """Returns a value in Hydra's notation."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {typed(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(typed, value)) + "]"
    return str(value) if value != "" else '""'
