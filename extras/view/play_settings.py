"""Makes what writes a text from settings as they are typed after `outrider generate`."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from hydra.errors import HydraException
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from outrider.base.errors import ConfigError, nearest, require
from outrider.contract.drafter import Drafter
from outrider.extras.view.play import Parts
from outrider.plugins.config import build, compose
from outrider.plugins.explaining import explain_error
from outrider.plugins.reading import plain_values
from outrider.plugins.registry import installed
from outrider.plugins.roles import ROLES

PARTS = ("drafter", "verifier", "policy", "sampling")

SETTINGS = (*PARTS, "gamma", "budget", "max_new_tokens", "stop", "stop_token_ids", "chat")
"""What can be set: the parts with their own settings, and what belongs to one text."""


def parts_of(settings: Sequence[str]) -> Parts:
    """Returns the parts that settings describe, with the defaults of `outrider generate`.

    The last few drafters are kept, so that their weights are loaded once.

    Raises:
        ConfigError: there is no such setting or part.
    """
    for setting in settings:
        name = re.split(r"[.=]", setting, maxsplit=1)[0]
        is_set = "=" in setting
        expected = f"a known one; {nearest(name, SETTINGS)}" if is_set else "SETTING=VALUE"
        require(is_set and name in SETTINGS, "settings", setting, expected)
    try:
        config = compose("generate", settings)
        values = {name: plain_values(config[name]) for name in SETTINGS}
        _check_registered(values)
        return Parts(
            drafter=_drafter(json.dumps(values["drafter"])),
            verifier=build(config.verifier),
            policy=build(config.policy),
            chat=config.chat,
            options={
                "gamma": config.gamma,
                "budget": config.budget,
                "sampling": build(config.sampling),
                "max_new_tokens": config.max_new_tokens,
                "stops": values["stop"],
                "stop_token_ids": values["stop_token_ids"],
            },
        )
    except (HydraException, OmegaConfBaseException, MissingMandatoryValue) as error:
        raise ConfigError(explain_error(error, "generate", settings)) from error


@lru_cache(maxsize=4)
def _drafter(config: str) -> Drafter:
    drafter: Drafter = build(json.loads(config))
    return drafter


def _check_registered(values: Any) -> None:
    """Raises `ConfigError` if a config names a class that is not registered: any page can ask."""
    known = {entry.path for entry in installed().entries if entry.role in ROLES}
    known.add("outrider.Sampling")
    for name in _called(values):
        require(name in known, "settings", name, "a part by its registered name")


def _called(values: Any) -> Iterator[Any]:
    """Yields every `_target_` in a config."""
    if isinstance(values, dict):
        yield from (value for name, value in values.items() if name == "_target_")
        values = list(values.values())
    if isinstance(values, list):
        for value in values:
            yield from _called(value)
