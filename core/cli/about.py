"""What a registered part is, and what it needs, from its docstring and its signature."""

import inspect
import re
from collections.abc import Sequence
from importlib.resources import files

from outrider.base.errors import ConfigError, PluginError
from outrider.plugins.entry import Entry
from outrider.plugins.hookspecs import Command
from outrider.plugins.registry import installed

WEIGHTS = ("path", "model")
"""The settings that say where weights are."""

OF_TARGET = {
    "model": "a transformers model",
    "hidden_states": "the target's states",
    "cache": "the target's cache",
    "source": "an encoder's input",
}
"""By `Drafter.needs`, what the target has to offer, in words."""


def about(entry: Entry) -> str:
    """Returns what a part is: the help of a command, or else the first sentence of its docstring.

    Empty if it has none, or can't be imported.
    """
    if isinstance(entry.source, Command):
        return entry.source.help
    try:
        text = inspect.getdoc(entry.factory) or ""
    except (ConfigError, PluginError):
        return ""
    return " ".join(text.split("\n\n")[0].split())


def in_brief(text: str, room: int) -> str:
    """Returns what a part is without the papers, as far as a line has room for whole clauses.

    >>> in_brief("Copies words, long or short (ACL 2024).", 20)
    'Copies words'
    """
    text = re.sub(
        r"^Returns (?:\w+ (?:drafter|constraint) that )?| \([^()]*\d{4}[^()]*\)|\.$", "", text
    )
    ends = [len(text), *(match.start() for match in re.finditer("[,;:] ", text))]
    clauses = [text[:end] for end in ends if text.count("(", 0, end) == text.count(")", 0, end)]
    least = min(clauses, key=len)
    most = max((clause for clause in clauses if len(clause) <= room), key=len, default=least)
    return most[:1].upper() + most[1:]


def needs(entry: Entry) -> list[str]:
    """Returns what a part needs before it runs, in words: weights, training, settings, trees."""
    if entry.role == "command":
        return [] if entry.extra is None else [f"the extra {entry.extra!r}"]
    try:
        parameters = inspect.signature(entry.factory).parameters.values()
    except (ConfigError, PluginError) as error:
        return [str(error)]
    lacking = [each.name for each in parameters if each.default is each.empty]
    if entry.role == "drafter":
        return [*_weights(entry, lacking), *_of_target(entry), *_settings(lacking)]
    return [] if entry.role == "recipe" else _settings(lacking)  # its config has all of them


def _weights(entry: Entry, lacking: Sequence[str]) -> list[str]:
    """Returns whether a drafter needs weights, and how they are made."""
    parameters = inspect.signature(entry.factory).parameters
    comes = files("outrider.drafters").joinpath("weights", entry.name).is_dir()
    comes = comes and any(name in parameters for name in WEIGHTS)
    # A network on the target's states may take its weights from the target's own folder.
    reads_states = "path" in parameters and "hidden_states" in _features(entry)
    if not (comes or reads_states or any(name in WEIGHTS for name in lacking)):
        return []
    recipe = f"train recipe={entry.name}" if entry.name in installed().of("recipe") else ""
    where = "; ".join(filter(None, ["given for smollm2" if comes else "", recipe]))
    return [f"weights ({where})" if where else "weights"]


def _of_target(entry: Entry) -> list[str]:
    product, of_target = entry.product, _features(entry)
    if product is None:
        return []
    if len(of_target) > 1:
        of_target.discard("model")  # the others are a transformers model's
    trees = [] if product.kind == "chain" else ["trees"]
    return [*(OF_TARGET.get(need, need) for need in sorted(of_target)), *trees]


def _features(entry: Entry) -> set[str]:
    """Returns what a drafter reads from the target, by `Drafter.needs`, whatever the layer."""
    return {need.partition(".")[0] for need in getattr(entry.product, "needs", ())}


def _settings(lacking: Sequence[str]) -> list[str]:
    return [f"{name}=" for name in lacking if name not in ("args", "kwargs")]
