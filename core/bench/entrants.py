"""Entrants: who takes part in a bench, each as the command and config of a worker."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import torch

from outrider.drafter_parts import student
from outrider.drafters.none import NoDraft
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.drafters.small_lm import SmallLM, located
from outrider.errors import ConfigError, require
from outrider.plugins.config import factory_of
from outrider.targets.smollm2 import folder as smollm2_folder
from outrider.targets.smollm2 import smollm2

OUTRIDER_PLAIN = "outrider plain"
"""Outrider without drafts: its texts are the reference for all others."""

TRANSFORMERS_PLAIN = "transformers plain"
VLLM_PLAIN = "vllm plain"

OUTRIDER_SETTINGS = (
    "target", "sampling", "budget", "gamma", "chat", "drafter", "verifier", "policy",
    "draft_timeout",
)  # fmt: skip
"""What a worker of Outrider's is told of the run's settings."""

NO_DRAFT = {"_target_": "outrider.drafters.none.NoDraft"}
FIXED_POLICY = {"_target_": "outrider.contract.policy.Fixed"}


@final
@dataclass(frozen=True)
class Entrant:
    """A worker to start.

    settings: its first line, which says what to load.
    rivals: the entrants that its speed is compared with, if they take part.
    """

    name: str
    command: tuple[str, ...]
    settings: Mapping[str, Any]
    rivals: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Peers:
    """What the peers have in common: the target, its precision, and the drafter to match.

    model: the target's folder or hub id. dtype: as both peers spell it, such as "float32".
    drafter: the config of Outrider's drafter. label: what the entrants with it are called.
    """

    model: str
    dtype: str
    drafter: Mapping[str, Any]
    label: str
    gamma: int

    def transformers(self) -> list[Entrant]:
        """Returns transformers without drafts, and with the same drafter if it has that."""
        entrants = [self._transformers("plain", {})]
        options = self._assisted_options()
        return [*entrants, self._transformers(self.label, options)] if options else entrants

    def vllm(self, python: Path) -> list[Entrant]:
        """Returns vLLM without drafts, and with the same drafter if it has that.

        python: the interpreter of an environment with vLLM.

        Raises:
            ConfigError: there is no such file.
        """
        require(
            python.is_file(), "peers.vllm", str(python), "the python of an environment with vLLM"
        )
        entrants = [self._vllm("plain", python, None)]
        if factory_of(self.drafter) is PromptLookup:
            speculative = {
                "method": "ngram",
                "num_speculative_tokens": self.gamma,
                "prompt_lookup_max": self.drafter["max_n"],
                "prompt_lookup_min": self.drafter["min_n"],
            }
            entrants.append(self._vllm(self.label, python, speculative))
        return entrants

    def _assisted_options(self) -> dict[str, Any] | None:
        """Returns the options for the same drafter in transformers, or None if it has none."""
        factory = factory_of(self.drafter)
        if factory is PromptLookup:
            max_n = self.drafter["max_n"]
            return {"prompt_lookup_num_tokens": self.gamma, "max_matching_ngram_size": max_n}
        if factory is SmallLM and self.drafter["vocabulary"] == "same":
            model = self.drafter["model"]
            if isinstance(model, str) and not student.borrows(located(model)):
                return {"assistant_model": model}
        return None

    def _transformers(self, label: str, options: Mapping[str, Any]) -> Entrant:
        settings = {
            "model": self.model,
            "dtype": self.dtype,
            "gamma": self.gamma,
            "options": dict(options),
        }
        command = (sys.executable, "-m", "outrider.bench.peer_transformers")
        return Entrant(f"transformers {label}", command, settings)

    def _vllm(self, label: str, python: Path, speculative: Mapping[str, Any] | None) -> Entrant:
        settings = {
            "model": self.model,
            "dtype": self.dtype,
            "speculative": speculative,
            "max_model_len": 4096,
        }
        script = Path(__file__).with_name("peer_vllm.py")
        environment = {
            **os.environ,
            "VLLM_CPU_KVCACHE_SPACE": "2",
            "VLLM_LOGGING_LEVEL": "ERROR",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        }
        # Not resolved: a virtual environment is found by the link, not by the file it points to.
        command = (str(python.absolute()), str(script))
        return Entrant(f"vllm {label}", command, settings, (), environment)


def entrants(config: Mapping[str, Any], model: str, dtype: torch.dtype) -> list[Entrant]:
    """Returns the entrants that a config asks for: Outrider's, and their counterparts among peers.

    config: plain values, as Hydra composed them. model: the target's folder or hub id.

    Raises:
        ConfigError: `peers.vllm` is set, but is not a file.
    """
    drafter = dict(config["drafter"])
    label = str(drafter["_target_"]).rpartition(".")[2]
    without_drafts = {**config, "drafter": NO_DRAFT, "policy": FIXED_POLICY}
    entrants = [_outrider(OUTRIDER_PLAIN, without_drafts, (TRANSFORMERS_PLAIN, VLLM_PLAIN))]
    if factory_of(drafter) is not NoDraft:
        rivals = (OUTRIDER_PLAIN, f"transformers {label}", f"vllm {label}", TRANSFORMERS_PLAIN)
        entrants.append(_outrider(f"outrider {label}", config, rivals))
    precision = str(dtype).removeprefix("torch.")
    peers = Peers(model, precision, drafter, label, int(config["gamma"]))
    if config["peers"]["transformers"]:
        entrants += peers.transformers()
    if config["peers"]["vllm"]:
        entrants += peers.vllm(Path(str(config["peers"]["vllm"])).expanduser())
    return entrants


def weights_location(config: Mapping[str, Any]) -> str:
    """Returns the folder or hub id of the target's weights, for peers to load.

    Raises:
        ConfigError: the target is of a kind that peers can't load.
    """
    target = dict(config["target"])
    if factory_of(target) is smollm2:
        return str(smollm2_folder())
    model = target.get("model")
    if not isinstance(model, str):
        raise ConfigError("target: expected smollm2 or transformers, which peers can load too")
    return model


def _outrider(name: str, config: Mapping[str, Any], rivals: tuple[str, ...]) -> Entrant:
    settings = {key: config[key] for key in OUTRIDER_SETTINGS}
    return Entrant(name, (sys.executable, "-m", "outrider.bench.ours"), settings, rivals)
