"""Makes what writes a text from settings as they are typed after `outrider generate`."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from hydra.errors import HydraException
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from outrider.base.calling import hints_of
from outrider.base.errors import ConfigError, nearest, require
from outrider.base.expectations import is_free_text
from outrider.contract.drafter import Drafter
from outrider.extras.view.play import Parts
from outrider.lab.runs.labels import flatten
from outrider.plugins.config import build, compose
from outrider.plugins.explaining import explain_error
from outrider.plugins.parts import TARGET, factory_of
from outrider.plugins.reading import plain_values
from outrider.plugins.registry import installed
from outrider.plugins.roles import ROLES

PARTS = ("drafter", "verifier", "policy", "sampling")

SETTINGS = (*PARTS, "gamma", "budget", "max_new_tokens", "stop", "stop_token_ids", "chat")
"""What can be set: the parts with their own settings, and what belongs to one text."""


def parts_of(settings: Sequence[str], allowed: Sequence[str] = ()) -> Parts:
    """Returns the parts that settings describe, with the defaults of `outrider generate`.

    The last few drafters are kept, so that their weights are loaded once.

    allowed: those that may have a text of their own, such as a path. Defaults to none.

    Raises `ConfigError` if there is no such setting or part, or it has a text that is not allowed.
    """
    for setting in settings:
        name = re.split(r"[.=]", setting, maxsplit=1)[0]
        is_set = "=" in setting
        expected = f"a known one; {nearest(name, SETTINGS)}" if is_set else "SETTING=VALUE"
        require(is_set and name in SETTINGS, "settings", setting, expected)
    try:
        config = compose("generate", settings)
        values = {name: plain_values(config[name]) for name in SETTINGS}
        for key, part in flatten(values, lists=True):  # any page can ask
            is_part, expected = TARGET in key.split("."), "a part by its registered name"
            require(not is_part or part in _known(), "settings", part, expected)
        safe = [each for each in settings if "." not in each.partition("=")[0] or each in allowed]
        kept = dict(_free_texts(_parts(compose("generate", safe))))
        for key, text in _free_texts(_parts(config)):
            expected = "a name or a number; `outrider view --allow SETTING=VALUE` allows others"
            require(kept.get(key) == text, "settings", f"{key}={text}", expected)
        made = {name: build(config[name]) for name in ("verifier", "policy", "sampling")}
        return values | made | {"drafter": _drafter(json.dumps(values["drafter"]))}
    except (HydraException, OmegaConfBaseException, MissingMandatoryValue) as error:
        raise ConfigError(explain_error(error, "generate", settings)) from error


@lru_cache(maxsize=4)
def _drafter(config: str) -> Drafter:
    drafter: Drafter = build(json.loads(config))
    return drafter


def _parts(config: Any) -> dict[str, Any]:
    return {name: plain_values(config[name]) for name in PARTS}


def _known() -> set[str]:
    """Returns the names of all parts, and those of what makes them."""
    entries = [entry for entry in installed().entries if entry.role in ROLES]
    return {"outrider.Sampling"}.union(*({entry.name, entry.path} for entry in entries))


def _free_texts(value: Any, key: str = "", hint: Any = None) -> Iterator[tuple[str, object]]:
    """Yields the texts in a config that name no part or choice, by key: they may name files.

    A tree's shape is no file's name.
    """
    if isinstance(value, Mapping):
        hints = hints_of(factory_of(value)) if TARGET in value else {}
        for name, item in value.items():
            yield from _free_texts(item, f"{key}.{name}" if key else name, hints.get(name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _free_texts(item, f"{key}.{number}")
    elif key.rpartition(".")[2] != "tree" and is_free_text(hint, value, _known()):
        yield key, value
