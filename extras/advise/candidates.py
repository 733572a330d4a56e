"""Which drafters fit a target: those that are listed, or all that are installed."""

from dataclasses import replace
from typing import Any

from outrider.base.errors import ConfigError, OutriderError
from outrider.cli.settings import OWN
from outrider.cli.variants import variants_of
from outrider.contract.target import Target
from outrider.decoding.decode import prepare
from outrider.extras.advise.engines import check_there
from outrider.extras.advise.settings import Advise
from outrider.lab.measuring.variants import Variant
from outrider.lab.statistics.pairs import CONTROLS
from outrider.plugins.reading import option_configs
from outrider.plugins.registry import installed

NODES = 4
"""The nodes of a tree for each token of its depth."""

Configs = dict[str, dict[str, Any]]


def candidates(
    settings: Advise, target: Target
) -> tuple[Configs, dict[str, Variant], dict[str, str]]:
    """Returns by name the configs and the drafters that fit, and why the others do not.

    A drafter says itself what it takes, when it is bound: vocabulary, layout and training.

    Raises `ConfigError` if none fits.
    """
    configs, fitting, reasons = Configs(), dict[str, Variant](), dict[str, str]()
    listed = settings.drafters
    names = [name for name in installed().of("drafter") if name not in CONTROLS]
    for name in names if listed is None else listed:
        try:
            own = _option(name, settings.gamma) if listed is None else listed[name]
            made, variants = variants_of(replace(settings, drafters={name: own}))
            check_there(settings.engine, made[name])
            prepare(target, variants[name].drafter, variants[name].verifier)
            configs, fitting = configs | made, fitting | variants
        except OutriderError as error:
            reasons[name] = str(error)
    if not fitting:
        why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise ConfigError(f"drafters: expected one that fits the target, there is none: {why}")
    return configs, fitting, reasons


def _option(name: str, gamma: int) -> Any:
    """Returns a drafter with its defaults, and with a rule for trees if it writes them."""
    kind = getattr(installed().of("drafter")[name].product, "kind", "")
    tree = {"verifier": "candidates", "budget": NODES * gamma} if kind == "deterministic" else {}
    item = {"drafter": name, "name": name, **tree}
    return option_configs("drafter", [item], OWN)[name]
