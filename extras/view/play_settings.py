"""Makes what writes a text from settings as they are typed after `outrider generate`."""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from hydra.errors import HydraException
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from outrider.base.errors import ConfigError, nearest, require
from outrider.contract.drafter import Drafter
from outrider.extras.view.play import Parts
from outrider.lab.runs.identity import leaves
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
    for key, name in leaves(values):
        is_part = "_target_" in key.split(".")
        require(not is_part or name in known, "settings", name, "a part by its registered name")
