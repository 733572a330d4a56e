"""The lines to paste: the same drafter and draft length for Outrider, vLLM, SGLang and llama.cpp.

The options are those of vLLM 0.33, SGLang 0.5.23 and llama.cpp b11549.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from outrider.base.errors import ConfigError, nearest
from outrider.plugins.parts import TARGET
from outrider.plugins.reading import part_config, plain_values
from outrider.plugins.registry import installed

METHODS: Mapping[str, Mapping[str, str]] = {
    "vllm": {
        "prompt_lookup": "ngram", "suffix": "suffix", "small_lm": "draft_model", "eagle": "eagle",
        "eagle3": "eagle3", "mtp": "mtp", "dflash": "dflash",
    },
    "sglang": {
        "prompt_lookup": "NGRAM", "small_lm": "STANDALONE", "eagle": "EAGLE", "eagle3": "EAGLE3",
        "mtp": "NEXTN", "dflash": "DFLASH",
    },
    "llama.cpp": {
        "prompt_lookup": "ngram-simple", "small_lm": "draft-simple", "eagle3": "draft-eagle3",
        "mtp": "draft-mtp", "dflash": "draft-dflash",
    },
}  # fmt: skip
"""By engine, what it calls the drafters that it has."""

WITHOUT_WEIGHTS = ("prompt_lookup", "suffix", "mtp")


def check_there(engine: str, config: Mapping[str, Any]) -> None:
    """Raises `ConfigError` if an engine has no such drafter; vLLM may run Outrider's own."""
    known = METHODS.get(engine, {})
    name = name_of(config["drafter"])
    if engine not in ("outrider", "vllm") and name not in known:
        raise ConfigError(f"engine={engine} has no drafter {name}: {nearest(name, known)}")


def name_of(drafter: Mapping[str, Any]) -> str:
    """Returns the name of a drafter's option; the place of its class if it has none."""
    place = str(drafter[TARGET])
    entries = installed().of("drafter").items()
    return next((name for name, entry in entries if entry.path == place), place)


def overrides(config: Mapping[str, Any], gamma: int) -> str:
    """Returns the settings of a command that drafts so."""
    words = [f"gamma={gamma}"]
    for role in ("drafter", "verifier", "policy"):
        given = plain_values(config[role])
        entries = installed().of(role).items()
        name = next((name for name, entry in entries if entry.path == given[TARGET]), None)
        if name is None:
            words.append(f"+{role}._target_={given[TARGET]}")
            continue
        usual = plain_values(part_config(role, name))
        words.append(f"{role}={name}")
        words += [
            f"{role}.{key}={json.dumps(value)}"
            for key, value in given.items()
            if value != usual.get(key)
        ]
    if config.get("budget"):
        words.append(f"budget={config['budget']}")
    return shlex.join([it for it in words if it not in ("verifier=token", "policy=fixed")])


def lines(config: Mapping[str, Any], gamma: int, rates: Sequence[float]) -> dict[str, str]:
    """Returns by engine what makes it draft so, as far as it can.

    config: of the drafter, its rule and its policy. rates: the marginal acceptance by position.
    """
    drafter, options = plain_values(config["drafter"]), overrides(config, gamma)
    name = name_of(drafter)
    weights = drafter.get("path") or drafter.get("model")
    found = {"outrider": f"outrider generate {options}"}
    if name in METHODS["vllm"] and (weights or name in WITHOUT_WEIGHTS):
        found["vllm"] = _vllm(name, drafter, gamma, weights)
    else:
        found["vllm"] = f"outrider serve-config {options}"
    synthetic = {"rejection_sample_method": "synthetic", "num_speculative_tokens": gamma}
    synthetic["synthetic_acceptance_rates"] = [round(rate, 4) for rate in rates]
    found["vllm, acceptance alone"] = f"--speculative-config {shlex.quote(json.dumps(synthetic))}"
    if name in METHODS["sglang"]:
        found["sglang"] = _sglang(name, gamma, weights)
    if name in METHODS["llama.cpp"]:
        found["llama.cpp"] = _llama_cpp(name, drafter, gamma, weights)
    return found


def _vllm(name: str, drafter: Mapping[str, Any], gamma: int, weights: str | None) -> str:
    config: dict[str, Any] = {"method": METHODS["vllm"][name], "num_speculative_tokens": gamma}
    if name == "prompt_lookup":
        config |= {"prompt_lookup_max": drafter["max_n"], "prompt_lookup_min": drafter["min_n"]}
    elif weights:
        config["model"] = weights
    return f"--speculative-config {shlex.quote(json.dumps(config))}"


def _sglang(name: str, gamma: int, weights: str | None) -> str:
    words = ["--speculative-algorithm", METHODS["sglang"][name]]
    if name not in WITHOUT_WEIGHTS:
        words += ["--speculative-draft-model-path", weights or "WEIGHTS"]
    if name != "prompt_lookup":
        words += ["--speculative-num-steps", str(gamma), "--speculative-eagle-topk", "1"]
    return shlex.join([*words, "--speculative-num-draft-tokens", str(gamma + 1)])


def _llama_cpp(name: str, drafter: Mapping[str, Any], gamma: int, weights: str | None) -> str:
    words = ["--spec-type", METHODS["llama.cpp"][name]]
    if name == "prompt_lookup":
        size = str(drafter["max_n"])
        return shlex.join(
            [*words, "--spec-ngram-simple-size-n", size, "--spec-ngram-simple-size-m", str(gamma)]
        )
    if name not in WITHOUT_WEIGHTS:
        words += ["--spec-draft-model", f"{weights or 'WEIGHTS'}.gguf"]
    return shlex.join([*words, "--spec-draft-n-max", str(gamma), "--spec-draft-p-min", "0"])
