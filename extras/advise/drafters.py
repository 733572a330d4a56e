"""Drafters: which fit a target and an engine, and the lines that make an engine draft so.

The options are those of vLLM 0.33, SGLang 0.5.23 and llama.cpp b11549.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

from outrider.base.errors import ConfigError, OutriderError, require
from outrider.cli.settings import OWN
from outrider.cli.variants import variants_of
from outrider.contract.target import Target
from outrider.decoding.decode import prepare
from outrider.extras.advise.settings import Advise
from outrider.lab.measuring.variants import Variant
from outrider.lab.statistics.pairs import CONTROLS
from outrider.plugins.parts import TARGET, factory_of
from outrider.plugins.reading import option_configs, plain_values
from outrider.plugins.registry import installed

SERVERS = ("vllm", "sglang", "llama.cpp")
METHODS: Mapping[str, Sequence[str]] = {
    "prompt_lookup": ("ngram", "NGRAM", "ngram-simple"),
    "suffix": ("suffix", "", ""),
    "small_lm": ("draft_model", "STANDALONE", "draft-simple"),
    "eagle": ("eagle", "EAGLE", ""),
    "eagle3": ("eagle3", "EAGLE3", "draft-eagle3"),
    "mtp": ("mtp", "NEXTN", "draft-mtp"),
    "dflash": ("dflash", "DFLASH", "draft-dflash"),
}
"""By drafter, what these engines call it, if they have it."""


def name_of(role: str, config: Mapping[str, Any]) -> str:
    """Returns the name of a part's option; the place of its class if it has none."""
    place = str(config[TARGET])
    return next((name for name, it in installed().of(role).items() if it.path == place), place)


def has(server: str, config: Mapping[str, Any]) -> bool:
    """Returns whether a server has such a drafter; vLLM runs Outrider's too."""
    names = METHODS.get(name_of("drafter", config["drafter"]), ("",) * 3)
    return server in ("outrider", "vllm") or bool(dict(zip(SERVERS, names, strict=True))[server])


def overrides(config: Mapping[str, Any], gamma: int) -> str:
    """Returns the settings of a command that drafts so, but for those that are usual."""
    words = [f"gamma={gamma}", *(f"budget={it}" for it in [config.get("budget")] if it)]
    for role in ("drafter", "verifier", "policy"):
        given, name = plain_values(config[role]), name_of(role, config[role])
        words.append(f"{role}={name}")
        for key, it in signature(factory_of(given)).parameters.items():
            if key in given and given[key] != plain_values(it.default):
                value = re.sub(r'"(\w+)":', r"\1:", json.dumps(given[key]))  # as Hydra writes keys
                words.append(f"{role}.{key}={value}")
    return shlex.join(word for word in words if word not in ("verifier=token", "policy=fixed"))


def lines(config: Mapping[str, Any], gamma: int, rates: Sequence[float]) -> dict[str, str]:
    """Returns by engine what makes it draft so, as far as it can.

    config: of the drafter, its rule and its policy. rates: the marginal acceptance by position.
    """
    drafter, options = plain_values(config["drafter"]), overrides(config, gamma)
    name, tokens = name_of("drafter", drafter), {"num_speculative_tokens": gamma}
    found = {"outrider": f"outrider generate {options}", "vllm": f"outrider serve-config {options}"}
    path, is_lookup = drafter.get("path") or drafter.get("model"), name == "prompt_lookup"
    weights = path and shlex.quote(str(path))
    if name in METHODS and (weights or name in ("prompt_lookup", "suffix", "mtp")):
        vllm, sglang, llama = METHODS[name]
        native = {"method": vllm, **tokens} | ({"model": path} if path else {})
        if is_lookup:
            native |= {f"prompt_lookup_{it}": drafter[f"{it}_n"] for it in ("min", "max")}
        found["vllm"] = f"--speculative-config {shlex.quote(json.dumps(native))}"
        model = f" --speculative-draft-model-path {weights}" if weights else ""
        steps = "" if is_lookup else f" --speculative-num-steps {gamma} --speculative-eagle-topk 1"
        count = f" --speculative-num-draft-tokens {gamma + 1}"
        found["sglang"] = sglang and f"--speculative-algorithm {sglang}{model}{steps}{count}"
        model = f" --spec-draft-model {weights}.gguf" if weights else ""
        size = f" --spec-draft-n-max {gamma} --spec-draft-p-min 0"
        if is_lookup:
            size = f" --spec-ngram-simple-size-m {gamma}"
            size += f" --spec-ngram-simple-size-n {drafter['max_n']}"
        found["llama.cpp"] = llama and f"--spec-type {llama}{model}{size}"
    synthetic = {**tokens, "synthetic_acceptance_rates": [round(rate, 4) for rate in rates]}
    synthetic |= {"rejection_sample_method": "synthetic"}
    found["vllm's load"] = f"--speculative-config {shlex.quote(json.dumps(synthetic))}"
    return {engine: line for engine, line in found.items() if line}


Configs = dict[str, dict[str, Any]]


def candidates(
    settings: Advise, target: Target
) -> tuple[Configs, dict[str, Variant], dict[str, str]]:
    """Returns by name the configs and the drafters that fit, and why the others do not.

    A drafter says itself what it takes, when it is bound: vocabulary, layout and training.

    Raises `ConfigError` if none fits.
    """
    configs, fitting, reasons = Configs(), dict[str, Variant](), dict[str, str]()
    listed = settings.drafters or {}
    for name in listed or [name for name in installed().of("drafter") if name not in CONTROLS]:
        try:
            own = {name: listed[name]} if listed else option_configs("drafter", [name], OWN)
            made, variants = variants_of(replace(settings, drafters=own))
            require(has(settings.server, made[name]), "server", settings.server, "one that has it")
            prepare(target, variants[name].drafter, variants[name].verifier)
            configs, fitting = configs | made, fitting | variants
        except OutriderError as error:
            reasons[name] = str(error)
    if not fitting:
        why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise ConfigError(f"drafters: expected one that fits the target, there is none: {why}")
    return configs, fitting, reasons
