"""Entrants: who takes part in a bench, each as the command and config of a worker."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import torch

from outrider.drafter_parts import student
from outrider.drafters.small_lm import located
from outrider.errors import ConfigError, require

PLAIN = "outrider plain"
PEER = "transformers plain"


@final
@dataclass(frozen=True)
class Entrant:
    """A worker to start. given: its first line. beside: whom it is compared with, where it runs."""

    name: str
    command: tuple[str, ...]
    given: Mapping[str, Any]
    beside: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = field(default=None, repr=False)


def entrants(config: Mapping[str, Any], model: str, dtype: torch.dtype) -> list[Entrant]:
    """Returns the entrants that a config asks for: Outrider's, and the peers' counterparts of them.

    config: plain values, as Hydra composed them. model: the target's folder or hub id.

    Raises:
        ConfigError: a peer is neither to be had nor left out.
    """
    drafter, gamma = dict(config["drafter"]), int(config["gamma"])
    name = str(drafter["_target_"]).rpartition(".")[2]
    none = {"_target_": "outrider.drafters.none.NoDraft"}
    fixed = {"_target_": "outrider.contract.policy.Fixed"}
    shared = {key: config[key] for key in ("target", "sampling", "budget", "gamma", "chat")}
    found = [
        _ours(PLAIN, shared, none, config["verifier"], fixed, (PEER, "vllm plain")),
    ]
    drafts = name != "NoDraft"
    if drafts:
        peers = (PLAIN, f"transformers {name}", f"vllm {name}", PEER)
        found.append(
            _ours(f"outrider {name}", shared, drafter, config["verifier"], config["policy"], peers)
        )
    precision = str(dtype).removeprefix("torch.")
    asked = config["peers"]
    if asked["transformers"]:
        found.append(_transformers("plain", model, precision, gamma, {}))
        assisted = _assisted(name, drafter, gamma)
        if assisted:
            found.append(_transformers(name, model, precision, gamma, assisted))
    if asked["vllm"]:
        python = Path(str(asked["vllm"])).expanduser()
        require(
            python.is_file(), "peers.vllm", str(python), "the python of an environment with vLLM"
        )
        found.append(_vllm("plain", python, model, precision, None))
        if name == "PromptLookup":
            speculative = {
                "method": "ngram",
                "num_speculative_tokens": gamma,
                "prompt_lookup_max": drafter["max_n"],
                "prompt_lookup_min": drafter["min_n"],
            }
            found.append(_vllm(name, python, model, precision, speculative))
    return found


def local(config: Mapping[str, Any]) -> str:
    """Returns where the weights of the config's target lie, for peers to load.

    Raises:
        ConfigError: the target is none that peers can load.
    """
    from outrider.targets.smollm2 import folder

    target = dict(config["target"])
    if str(target["_target_"]).endswith("smollm2"):
        return str(folder())
    model = target.get("model")
    if not isinstance(model, str):
        raise ConfigError("target: expected smollm2 or transformers, which peers can load too")
    return model


def _ours(
    name: str,
    shared: Mapping[str, Any],
    drafter: Mapping[str, Any],
    verifier: Any,
    policy: Any,
    beside: tuple[str, ...],
) -> Entrant:
    given = {**shared, "drafter": drafter, "verifier": verifier, "policy": policy}
    return Entrant(name, (sys.executable, "-m", "outrider.bench.ours"), given, beside)


def _assisted(name: str, drafter: Mapping[str, Any], gamma: int) -> dict[str, Any] | None:
    """Returns how transformers is asked for the same drafter, None where it has none."""
    if name == "PromptLookup":
        return {"prompt_lookup_num_tokens": gamma, "max_matching_ngram_size": drafter["max_n"]}
    model = drafter.get("model")
    if name == "SmallLM" and isinstance(model, str) and not student.borrows(located(model)):
        return {"assistant_model": model}
    return None


def _transformers(
    name: str, model: str, dtype: str, gamma: int, options: Mapping[str, Any]
) -> Entrant:
    given = {"model": model, "dtype": dtype, "gamma": gamma, "options": dict(options)}
    command = (sys.executable, "-m", "outrider.bench.peer_transformers")
    return Entrant(f"transformers {name}", command, given)


def _vllm(
    name: str, python: Path, model: str, dtype: str, speculative: Mapping[str, Any] | None
) -> Entrant:
    given = {"model": model, "dtype": dtype, "speculative": speculative, "max_model_len": 4096}
    script = Path(__file__).with_name("peer_vllm.py")
    environment = {
        **os.environ,
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }
    # No link is followed: the environment is that of the name, not of what it points to.
    command = (str(python.absolute()), str(script))
    return Entrant(f"vllm {name}", command, given, (), environment)
