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
from outrider.contract.drafter import Drafter
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
EXPORTED = ("eagle3", "medusa", "mtp", "pard", "small_lm")
"""Drafters whose packaged weights `serve-config` hands to vLLM."""
POLICIES: Mapping[str, Sequence[str]] = {"fixed": SERVERS, "confidence": ("llama.cpp",)}
"""By policy, the engines that have it."""


def name_of(role: str, config: Mapping[str, Any]) -> str:
    """Returns the name of a part's option; the place of its class if it has none."""
    place = str(config[TARGET])
    return next((name for name, it in installed().of(role).items() if it.path == place), place)


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


def lines(
    config: Mapping[str, Any], drafter: Drafter, gamma: int, rates: Sequence[float] = ()
) -> dict[str, str]:
    """Returns what makes each engine draft so, if it has such a drafter, rule and policy.

    config: of the drafter, its rule and its policy. rates: the marginal acceptance by position.
    """
    given, options = plain_values(config["drafter"]), overrides(config, gamma)
    name, rule, policy = (name_of(role, config[role]) for role in ("drafter", "verifier", "policy"))
    path, is_lookup = given.get("path") or given.get("model"), name == "prompt_lookup"
    found = {"outrider": f"outrider generate {options}"}
    if drafter.trees or drafter.asks or rule != "token":
        policy = "none of engines, which write chains and have a rule of their own"
    elif name in METHODS and (path or name in ("prompt_lookup", "suffix", "mtp")):
        vllm, sglang, llama = METHODS[name]
        native = {"method": vllm, "num_speculative_tokens": gamma}
        native |= {"model": path} if path else {}
        if is_lookup:
            native |= {f"prompt_lookup_{it}": given[f"{it}_n"] for it in ("min", "max")}
        found["vllm"] = f"--speculative-config {shlex.quote(json.dumps(native))}"
        native |= {"synthetic_acceptance_rates": [round(rate, 4) for rate in rates]}
        native |= {"rejection_sample_method": "synthetic"}
        found["vllm's load"] = f"--speculative-config {shlex.quote(json.dumps(native))}"
        model = f" --speculative-draft-model-path {shlex.quote(str(path))}" if path else ""
        steps = "" if is_lookup else f" --speculative-num-steps {gamma} --speculative-eagle-topk 1"
        count = f" --speculative-num-draft-tokens {gamma + 1}"
        found["sglang"] = sglang and f"--speculative-algorithm {sglang}{model}{steps}{count}"
        stem = shlex.quote(str(path).removesuffix(".gguf"))
        model = f" --spec-draft-model {stem}.gguf" if path else ""
        least = config["policy"].get("threshold", 0)
        size = f" --spec-draft-n-max {gamma} --spec-draft-p-min {least}"
        if is_lookup:
            size = f" --spec-ngram-simple-size-m {gamma}"
            size += f" --spec-ngram-simple-size-n {given['max_n']}"
        found["llama.cpp"] = llama and f"--spec-type {llama}{model}{size}"
    elif name in EXPORTED or not (drafter.needs - {"tokenizer"} or drafter.observes):
        found["vllm"] = f"outrider serve-config {options}"
    there = ("outrider", *POLICIES.get(policy, ()))
    return {name: line for name, line in found.items() if line and name.partition("'")[0] in there}


def candidates(
    settings: Advise, target: Target
) -> tuple[dict[str, Any], dict[str, Variant], dict[str, str]]:
    """Returns by name the configs and the drafters that fit, and why the others do not.

    A drafter says itself what it takes, when it is bound: vocabulary, layout and training.

    Raises `ConfigError` if none fits.
    """
    configs, fitting, reasons = dict[str, Any](), dict[str, Variant](), dict[str, str]()
    listed = settings.drafters or {}
    for name in listed or [name for name in installed().of("drafter") if name not in CONTROLS]:
        try:
            own = {name: listed[name]} if listed else option_configs("drafter", [name], OWN)
            made, variants = variants_of(replace(settings, drafters=own))
            there = lines(made[name], variants[name].drafter, settings.gamma)
            require(settings.server in there, "server", settings.server, "one that has it")
            prepare(target, variants[name].drafter, variants[name].verifier)
            configs, fitting = configs | made, fitting | variants
        except OutriderError as error:
            reasons[name] = str(error)
    if not fitting:
        why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise ConfigError(f"drafters: expected one that fits the target, there is none: {why}")
    return configs, fitting, reasons


def experts_read(target: Target, drafter: Drafter) -> list[str]:
    """Returns how much of a target with experts a token reads, beside its drafter; or nothing."""
    config: Any = target.model.config.get_text_config() if "model" in target.offers else None
    experts = getattr(config, "num_experts", 0) or getattr(config, "num_local_experts", 0)
    if not (experts and drafter.models):
        return []
    share, sizes = config.num_experts_per_tok / experts, dict(target.model.named_parameters())
    read = sum(it.numel() * (share if ".experts." in key else 1) for key, it in sizes.items())
    part = read / sum(it.numel() for it in sizes.values())
    own = sum(it.numel() for each in drafter.models for it in each.parameters()) / read
    said = (
        f"A token reads {part:.0%} of this mixture of experts, the drafter is {own:.2f} times that"
    )
    return [f"{said}; a longer draft reads more experts."]
