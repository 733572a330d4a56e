"""The lines to paste are options that the engines take, and settings that make the same drafter."""

import json
import re
import shlex
from typing import Any

import pytest

import outrider
from outrider.cli.settings import OWN
from outrider.extras.advise.drafters import has, lines
from outrider.plugins.reading import option_configs, part_config

RULES = {"verifier": "token", "policy": "fixed"}
ENGINES = ("vllm", "sglang", "llama.cpp")
TAKEN = {
    "vllm": "method model num_speculative_tokens prompt_lookup_min prompt_lookup_max",
    "sglang": "speculative-algorithm speculative-draft-model-path speculative-num-steps"
    " speculative-eagle-topk speculative-num-draft-tokens",
    "llama.cpp": "spec-type spec-draft-model spec-draft-n-max spec-draft-p-min"
    " spec-ngram-simple-size-n spec-ngram-simple-size-m",
}
"""What vLLM 0.33, SGLang 0.5.23 and llama.cpp b11549 take: their config, arguments and strings."""


def config(name: str, **own: Any) -> Any:
    item = {"drafter": name, "name": name, **own}
    rules = {role: part_config(role, part) for role, part in RULES.items()}
    return rules | option_configs("drafter", [item], OWN)[name]


@pytest.mark.parametrize(
    ("name", "own", "engines", "values"),
    [
        ("prompt_lookup", {"max_n": 4, "min_n": 2}, ENGINES, "ngram NGRAM ngram-simple 2 4 3"),
        ("suffix", {}, ENGINES[:1], "suffix 3"),
        ("small_lm", {"model": "org/a"}, ENGINES, "draft_model STANDALONE draft-simple org/a"),
        ("eagle3", {"path": "org/b"}, ENGINES, "eagle3 EAGLE3 draft-eagle3 org/b org/b.gguf 4"),
        ("dflash", {"path": "org/c"}, ENGINES, "dflash DFLASH draft-dflash org/c"),
        ("mtp", {}, ENGINES, "mtp NEXTN draft-mtp"),
        ("bigram", {"order": 3}, (), ""),
        ("hybrid", {"drafters": [{"drafter": "bigram", "order": 2}, "eagle"]}, (), ""),
        ("eagle", {}, (), ""),  # packaged weights go to vLLM through `serve-config` alone
    ],
)
def test_lines_have_only_options_of_the_engines(
    name: str, own: dict[str, Any], engines: tuple[str, ...], values: str
) -> None:
    made = config(name, **own)
    found = lines(made, 3, [0.7, 0.5, 0.4])
    composed = outrider.compose("generate", [*shlex.split(found["outrider"])[2:], "prompt=x"])
    assert composed.gamma == 3 and {**composed.drafter} == {**made["drafter"]}
    load = json.loads(shlex.split(found["vllm's load"])[1])
    assert load["synthetic_acceptance_rates"] == [0.7, 0.5, 0.4]
    said = []
    for engine in engines:
        assert has(engine, made)
        words = shlex.split(found[engine])
        if engine == "vllm":
            native = json.loads(words[1])
            words = [word for key, it in native.items() for word in (f"--{key}", str(it))]
        assert {word[2:] for word in words[::2]} <= {*TAKEN[engine].split()}
        said += words[1::2]
    assert {*values.split()} <= {*said}
    if not engines:
        assert found.keys() == {"outrider", "vllm", "vllm's load"}
        assert re.match(rf"outrider serve-config gamma=3 drafter={name}", found["vllm"])


def test_a_rule_a_policy_and_a_budget_of_its_own_are_in_the_line() -> None:
    policy = {"policy": "confidence", "threshold": 0.5}
    line = lines(config("bigram", verifier="block", policy=policy, budget=9), 2, [])["outrider"]
    wanted = {"budget=9", "verifier=block", "policy=confidence", "policy.threshold=0.5"}
    assert wanted <= {*shlex.split(line)}
