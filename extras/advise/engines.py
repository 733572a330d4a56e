"""The lines to paste: the same drafter and draft length for Outrider, vLLM, SGLang, llama.cpp.

The options are those of vLLM 0.33, SGLang 0.5.23 and llama.cpp b11549.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

from outrider.plugins.parts import TARGET
from outrider.plugins.reading import plain_values
from outrider.plugins.registry import installed

ENGINES = ("vllm", "sglang", "llama.cpp")
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


def has(engine: str, config: Mapping[str, Any]) -> bool:
    """Returns whether an engine has such a drafter; vLLM runs Outrider's too."""
    names = METHODS.get(name_of("drafter", config["drafter"]), ("",) * 3)
    return engine in ("outrider", "vllm") or bool(dict(zip(ENGINES, names, strict=True))[engine])


def overrides(config: Mapping[str, Any], gamma: int) -> str:
    """Returns the settings of a command that drafts so, but for those that are usual."""
    words = [f"gamma={gamma}", *(f"budget={it}" for it in [config.get("budget")] if it)]
    for role in ("drafter", "verifier", "policy"):
        given, name = plain_values(config[role]), name_of(role, config[role])
        words.append(f"{role}={name}")
        for key, it in signature(installed().of(role)[name].factory).parameters.items():
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
    weights, is_lookup = drafter.get("path") or drafter.get("model"), name == "prompt_lookup"
    if name in METHODS and (weights or name in ("prompt_lookup", "suffix", "mtp")):
        vllm, sglang, llama = METHODS[name]
        native = {"method": vllm, **tokens} | ({"model": weights} if weights else {})
        if is_lookup:
            native |= {f"prompt_lookup_{it}": drafter[f"{it}_n"] for it in ("min", "max")}
        found["vllm"] = f"--speculative-config {shlex.quote(json.dumps(native))}"
        path = f" --speculative-draft-model-path {weights}" if weights else ""
        steps = "" if is_lookup else f" --speculative-num-steps {gamma} --speculative-eagle-topk 1"
        count = f" --speculative-num-draft-tokens {gamma + 1}"
        found["sglang"] = sglang and f"--speculative-algorithm {sglang}{path}{steps}{count}"
        model = f" --spec-draft-model {weights}.gguf" if weights else ""
        size = f" --spec-draft-n-max {gamma} --spec-draft-p-min 0"
        if is_lookup:
            size = " --spec-ngram-simple-size-n {max_n} --spec-ngram-simple-size-m ".format(
                **drafter
            )
            size += str(gamma)
        found["llama.cpp"] = llama and f"--spec-type {llama}{model}{size}"
    synthetic = {**tokens, "synthetic_acceptance_rates": [round(rate, 4) for rate in rates]}
    synthetic |= {"rejection_sample_method": "synthetic"}
    found["vllm's load"] = f"--speculative-config {shlex.quote(json.dumps(synthetic))}"
    return {engine: line for engine, line in found.items() if line}
