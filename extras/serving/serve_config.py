"""`outrider serve-config`: prints the command that serves a model in vLLM with a drafter."""

import json
import shlex
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from rich.console import Console

from outrider.base.errors import ConfigError
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Fixed
from outrider.extras.serving.export import exported
from outrider.extras.serving.settings import ServeConfig
from outrider.extras.serving.vllm import VARIABLE
from outrider.extras.serving.vllm_patch import PATCH
from outrider.plugins.config import build
from outrider.plugins.parts import factory_of
from outrider.plugins.reading import plain_settings
from outrider.targets.weights_location import weights_location
from outrider.verifiers.token import Token

PROPOSER = "outrider.extras.serving.vllm.OutriderProposer"

OFFERED_NEEDS = {"tokenizer"}
"""What a drafter may need inside vLLM."""

VLLM_PARTS: dict[str, tuple[str, type]] = {"verifier": ("token", Token), "policy": ("fixed", Fixed)}
"""By role, the name and class of the only part that vLLM can stand in for."""


def serve_config(config: ServeConfig) -> None:
    """Prints one line for a shell; converted weights are saved in Hydra's run dir."""
    settings = plain_settings(config)
    folder = Path(HydraConfig.get().runtime.output_dir) / "drafter"
    environment, speculative = vllm_settings(settings, build(config.drafter), folder)
    command = ["vllm", "serve", weights_location(settings)]
    command += ["--speculative-config", json.dumps(speculative)]
    environment = {PATCH: "1"} | environment
    variables = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    line = " ".join([*variables, shlex.join(command)])
    Console(soft_wrap=True, highlight=False).print(line, markup=False)


def vllm_settings(
    config: dict[str, Any], drafter: Drafter, folder: Path
) -> tuple[dict[str, str], dict[str, Any]]:
    """Returns vLLM's environment variables and speculative config for a drafter.

    folder: for weights that have to be converted for vLLM.

    Raises `ConfigError` if vLLM can't run the drafter, or not with this acceptance rule or policy.
    """
    for role, (name, kind) in VLLM_PARTS.items():
        if factory_of(config[role]) is not kind:
            part = str(config[role]["_target_"]).rpartition(".")[2]
            raise ConfigError(f"{role}: {part} can't go into vLLM: expected {name}, its own")
    name = type(drafter).__name__
    if drafter.trees or drafter.asks:
        raise ConfigError(f"drafter {name} can't go into vLLM: expected one that writes chains")

    def target() -> Any:  # not packed: its tensors are exported
        node = config["target"]
        return build({**node, "optimize": "none"} if "optimize" in node else node)

    native = exported(drafter, config, target, folder)
    if native is not None:
        return {}, native
    if drafter.needs - OFFERED_NEEDS or drafter.observes:
        raise ConfigError(
            f"drafter {name} can't go into vLLM: expected one that needs only tokens, or eagle3,"
            " medusa, mtp, pard or a small_lm with its own model, which vLLM runs itself"
        )
    speculative = {
        "method": "custom_class",
        "model": PROPOSER,
        "num_speculative_tokens": config["gamma"],
    }
    return {VARIABLE: json.dumps(config["drafter"])}, speculative
