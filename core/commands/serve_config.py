"""`outrider serve-config`: the command that serves a model with vLLM and a drafter of ours."""

import json
import shlex
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from outrider.bench.entrants import local
from outrider.contract.drafter import Drafter
from outrider.errors import ConfigError
from outrider.plugins.config import build, plain
from outrider.serving.export import exported
from outrider.serving.vllm import VARIABLE

PROPOSER = "outrider.serving.vllm.OutriderProposer"
TOKENS = {"tokenizer"}
"""What a drafter may need inside vLLM."""


def serve_config(config: DictConfig) -> None:
    """Prints one line for a shell; weights that vLLM wants in another form go to the run's folder."""
    folder = Path(HydraConfig.get().runtime.output_dir) / "drafter"
    environment, speculative = served(plain(config), build(config.drafter), folder)
    words = ["vllm", "serve", local(plain(config)), "--speculative-config", json.dumps(speculative)]
    line = " ".join([*(f"{name}={shlex.quote(each)}" for name, each in environment.items())])
    Console(soft_wrap=True, highlight=False).print(
        f"{line} {shlex.join(words)}".strip(), markup=False
    )


def served(
    config: dict[str, Any], drafter: Drafter, folder: Path
) -> tuple[dict[str, str], dict[str, Any]]:
    """Returns the environment and the speculative config for a drafter.

    folder: for weights that vLLM wants in another form.

    Raises:
        ConfigError: vLLM can't run it, or not by this rule or policy.
    """
    name = type(drafter).__name__
    for role, only in (("verifier", "Token"), ("policy", "Fixed")):
        part = str(config[role]["_target_"]).rpartition(".")[2]
        if part != only:
            raise ConfigError(
                f"{role}: {part} can't go into vLLM: expected {only.lower()}, its own"
            )
    if drafter.trees or drafter.asks:
        raise ConfigError(f"drafter {name} can't go into vLLM: expected one that writes chains")
    own = exported(drafter, config, partial(_target, config), folder)
    if own is not None:
        return {}, own
    if drafter.needs - TOKENS:
        raise ConfigError(
            f"drafter {name} can't go into vLLM: expected one that needs tokens alone, or eagle3,"
            " medusa or a small_lm with a model of its own, which vLLM has itself"
        )
    speculative = {"method": "custom_class", "model": PROPOSER}
    node = json.dumps(config["drafter"])
    return {VARIABLE: node}, {**speculative, "num_speculative_tokens": config["gamma"]}


def _target(config: dict[str, Any]) -> Any:
    # Unpacked: its tensors are to be written.
    node = config["target"]
    return build({**node, "optimize": "none"} if "optimize" in node else node)
