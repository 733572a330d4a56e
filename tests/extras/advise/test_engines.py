"""The lines to paste are options that the engines take, and settings that make the same drafter."""

import argparse
import json
import shlex
from typing import Any

import pytest

import outrider
from outrider.cli.settings import OWN
from outrider.extras.advise.engines import has, lines
from outrider.plugins.reading import option_configs

SGLANG = (
    "speculative-algorithm", "speculative-draft-model-path", "speculative-num-steps",
    "speculative-eagle-topk", "speculative-num-draft-tokens",
)  # fmt: skip
"""Options of SGLang 0.5.23, from its arg_groups/fields/spec.py."""

LLAMA = (
    "spec-type", "spec-draft-model", "spec-draft-n-max", "spec-draft-p-min",
    "spec-ngram-simple-size-n", "spec-ngram-simple-size-m",
)  # fmt: skip
"""Options of llama.cpp b11549, from the strings of xllamacpp's library."""

VLLM = {
    "method", "model", "num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max",
    "rejection_sample_method", "synthetic_acceptance_rates",
}  # fmt: skip
"""Keys of the speculative config of vLLM 0.33."""

ITEMS: dict[str, dict[str, Any]] = {
    "prompt_lookup": {"max_n": 4, "min_n": 2},
    "suffix": {},
    "small_lm": {"model": "org/small"},
    "eagle": {"path": "org/one"},
    "eagle3": {"path": "org/three"},
    "dflash": {"path": "org/flash"},
    "mtp": {},
    "bigram": {"order": 3},
    "hybrid": {"drafters": [{"drafter": "bigram", "order": 2}, "eagle"]},
}


def config(name: str, **own: Any) -> Any:
    return option_configs("drafter", [{"drafter": name, "name": name, **ITEMS[name], **own}], OWN)[
        name
    ] | {role: option_configs(role, [first])[first] for role, first in RULES if role not in own}


RULES = (("verifier", "token"), ("policy", "fixed"))


def parsed(line: str, options: tuple[str, ...]) -> dict[str, str]:
    """Returns the options in a line, as an engine's own parser would."""
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    for option in options:
        parser.add_argument(f"--{option}")
    given = vars(parser.parse_args(shlex.split(line)))
    return {name: value for name, value in given.items() if value is not None}


@pytest.mark.parametrize("name", ITEMS)
def test_lines_are_what_the_engines_parse(name: str) -> None:
    found = lines(config(name), 3, [0.7, 0.5, 0.4])
    _, _, *overrides = shlex.split(found["outrider"])
    composed = outrider.compose("generate", [*overrides, "prompt=x"])
    assert composed.gamma == 3 and {**composed.drafter} == {**config(name)["drafter"]}
    load = json.loads(shlex.split(found["vllm's load"])[1])
    assert load["synthetic_acceptance_rates"] == [0.7, 0.5, 0.4] and load.keys() <= VLLM
    if name in ("bigram", "hybrid"):
        assert found["vllm"].startswith(f"outrider serve-config gamma=3 drafter={name}")
        assert not has("sglang", config(name)) and not has("llama.cpp", config(name))
        return
    flag, content = shlex.split(found["vllm"])
    native, weights = json.loads(content), ITEMS[name].get("path") or ITEMS[name].get("model")
    assert flag == "--speculative-config" and native.keys() <= VLLM
    assert native["num_speculative_tokens"] == 3 and native.get("model") == weights
    assert ("sglang" in found) is has("sglang", config(name))
    if "sglang" in found:
        given = parsed(found["sglang"], SGLANG)
        assert given["speculative_num_draft_tokens"] == "4"
        assert given.get("speculative_draft_model_path") == weights
    if "llama.cpp" in found:
        given = parsed(found["llama.cpp"], LLAMA)
        size = "spec_ngram_simple_size_m" if name == "prompt_lookup" else "spec_draft_n_max"
        assert given[size] == "3"


def test_a_rule_a_policy_and_a_budget_of_its_own_are_in_the_line() -> None:
    own = config("bigram", verifier="block", policy={"policy": "confidence", "threshold": 0.5})
    line = lines(own | {"budget": 9}, 2, [])["outrider"]
    for words in ("budget=9", "verifier=block", "policy=confidence", "policy.threshold=0.5"):
        assert words in shlex.split(line)


def test_packaged_weights_go_to_vllm_through_serve_config_alone() -> None:
    eagle = option_configs("drafter", ["eagle"], OWN)["eagle"]
    rules = {role: option_configs(role, [first])[first] for role, first in RULES}
    assert lines({**eagle, **rules}, 3, []).keys() == {"outrider", "vllm", "vllm's load"}
