"""Which drafters fit a target: of those that are listed, or of all that are installed."""

from dataclasses import replace
from typing import Any

from outrider.base.errors import ConfigError, OutriderError, require
from outrider.cli.settings import OWN
from outrider.cli.variants import variants_of
from outrider.contract.target import Target
from outrider.decoding.decode import prepare
from outrider.extras.advise.engines import has
from outrider.extras.advise.settings import Advise
from outrider.lab.measuring.variants import Variant
from outrider.lab.statistics.pairs import CONTROLS
from outrider.plugins.reading import option_configs
from outrider.plugins.registry import installed

Configs = dict[str, dict[str, Any]]


def candidates(
    settings: Advise, target: Target
) -> tuple[Configs, dict[str, Variant], dict[str, str]]:
    """Returns by name the configs and the drafters that fit, and why the others do not.

    A drafter says itself what it takes, when it is bound: vocabulary, layout and training.

    Raises `ConfigError` if none fits.
    """
    configs, fitting, reasons = Configs(), dict[str, Variant](), dict[str, str]()
    listed = settings.drafters or dict.fromkeys(installed().of("drafter").keys() - CONTROLS)
    for name, item in listed.items():
        try:
            own = {name: item} if item else option_configs("drafter", [name], OWN)
            made, variants = variants_of(replace(settings, drafters=own))
            require(has(settings.engine, made[name]), "engine", settings.engine, "one that has it")
            prepare(target, variants[name].drafter, variants[name].verifier)
            configs, fitting = configs | made, fitting | variants
        except OutriderError as error:
            reasons[name] = str(error)
    if not fitting:
        why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise ConfigError(f"drafters: expected one that fits the target, there is none: {why}")
    return configs, fitting, reasons
