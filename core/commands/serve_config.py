"""`outrider serve-config`: the command that serves a model with vLLM and a drafter of ours."""

import json
import shlex
from typing import Any

from omegaconf import DictConfig
from rich.console import Console

from outrider.bench.entrants import local
from outrider.config import build, plain
from outrider.drafter import Drafter
from outrider.drafters.eagle3 import Eagle3
from outrider.errors import ConfigError
from outrider.networks import weights
from outrider.serving.vllm import VARIABLE

PROPOSER = "outrider.serving.vllm.OutriderProposer"
TOKENS = {"tokenizer"}
"""What a drafter may need inside vLLM."""


def serve_config(config: DictConfig) -> None:
    """Prints one line for a shell; nothing is loaded but the drafter."""
    environment, speculative = served(plain(config), build(config.drafter))
    words = ["vllm", "serve", local(plain(config)), "--speculative-config", json.dumps(speculative)]
    line = " ".join([*(f"{name}={shlex.quote(each)}" for name, each in environment.items())])
    Console(soft_wrap=True, highlight=False).print(
        f"{line} {shlex.join(words)}".strip(), markup=False
    )


def served(config: dict[str, Any], drafter: Drafter) -> tuple[dict[str, str], dict[str, Any]]:
    """Returns the environment and the speculative config for a drafter.

    Raises:
        ConfigError: vLLM can't run it.
    """
    gamma = {"num_speculative_tokens": config["gamma"]}
    if isinstance(drafter, Eagle3):  # vLLM has this architecture, and reads its folder
        path = weights.folder("eagle3", config["drafter"]["path"])
        return {}, {"method": "eagle3", "model": str(path), **gamma}
    name = type(drafter).__name__
    if drafter.needs - TOKENS or drafter.trees or drafter.asks:
        raise ConfigError(
            f"drafter {name} can't go into vLLM: expected one that needs tokens alone and writes"
            " chains, or an eagle3, whose format vLLM reads"
        )
    node = json.dumps(config["drafter"])
    return {VARIABLE: node}, {"method": "custom_class", "model": PROPOSER, **gamma}
