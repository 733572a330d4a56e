"""The lines to paste are options that the engines take, and settings that make the same drafter."""

import json
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import xllamacpp

import outrider
from outrider.base.errors import ConfigError
from outrider.cli.settings import OWN
from outrider.drafters.none import NoDraft
from outrider.extras.advise.drafters import SERVERS, experts_read, lines
from outrider.extras.serving import serve_config
from outrider.plugins.config import build
from outrider.plugins.reading import option_configs, part_config, plain_values

RULES = {"verifier": "token", "policy": "fixed"}
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


def pasted(config: Any, gamma: int = 3) -> dict[str, str]:
    is_there = config["drafter"].get("path") is None
    drafter = build(config["drafter"]) if is_there else NoDraft()  # any that writes chains
    return lines(config, drafter, gamma, [0.7, 0.5, 0.4])


def values(line: str) -> dict[str, str]:
    """Returns the options of a line, and their values."""
    words = shlex.split(line)
    if words[0] == "--speculative-config":
        return {f"--{name}": str(value) for name, value in json.loads(words[1]).items()}
    return dict(zip(words[::2], words[1::2], strict=True))


@pytest.mark.parametrize(
    ("name", "own", "engines", "expected"),
    [
        ("prompt_lookup", {"max_n": 4, "min_n": 2}, SERVERS, "ngram NGRAM ngram-simple 2 4 3"),
        ("suffix", {}, SERVERS[:1], "suffix 3"),
        ("small_lm", {"model": "org/a"}, SERVERS, "draft_model STANDALONE draft-simple org/a"),
        ("eagle3", {"path": "org/b"}, SERVERS, "eagle3 EAGLE3 draft-eagle3 org/b org/b.gguf 4"),
        ("dflash", {"path": "org/c"}, SERVERS, "dflash DFLASH draft-dflash org/c"),
        ("small_lm", {"model": "a b.gguf"}, SERVERS, "draft-simple 'a b.gguf'"),
        ("mtp", {}, SERVERS, "mtp NEXTN draft-mtp"),
        *(
            ("small_lm", {"model": "org/a", "policy": {"policy": "confidence", "threshold": it}},
             SERVERS[2:], f"draft-simple {it}")
            for it in (0.25, 0.5)
        ),
    ],
)  # fmt: skip
def test_lines_have_only_options_of_the_engines(
    name: str, own: dict[str, Any], engines: tuple[str, ...], expected: str
) -> None:
    made = config(name, **own)
    found = pasted(made)
    composed = outrider.compose("generate", [*shlex.split(found["outrider"])[2:], "prompt=x"])
    assert composed.gamma == 3 and {**composed.drafter} == {**made["drafter"]}
    loads = ["vllm's load"] * ("vllm" in engines)
    assert found.keys() == {"outrider", *engines, *loads}
    for load in (json.loads(shlex.split(found[name])[1]) for name in loads):
        assert load.pop("synthetic_acceptance_rates") == [0.7, 0.5, 0.4]
        assert load.pop("rejection_sample_method") == "synthetic"
        assert load == json.loads(shlex.split(found["vllm"])[1])
    said = {engine: values(found[engine]) for engine in engines}
    for engine, options in said.items():
        assert {it[2:] for it in options} <= {*TAKEN[engine].split()}
    assert {*shlex.split(expected)} <= {
        value for options in said.values() for value in options.values()
    }


@pytest.mark.parametrize(
    "own",
    [
        *({"name": name} for name in ("unigram", "medusa", "eagle", "eagle3", "online")),
        *({"name": "bigram", **own} for own in ({"order": 3}, {"policy": "confidence"})),
        {"name": "bigram", "verifier": "block"},
        {"name": "token_recycling", "verifier": "candidates"},
        {"name": "small_lm", "model": "org/a", "tree": "2x1", "verifier": "traversal"},
        {"name": "hybrid", "drafters": [{"drafter": "bigram", "order": 2}, "eagle"]},
        {"name": "hybrid", "drafters": ["prompt_lookup", "bigram"]},
    ],
    ids=str,
)
def test_serve_config_is_named_where_it_takes_the_drafter(
    own: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Asked(Exception):
        """The target is asked for tensors: the drafter is exported."""

    monkeypatch.setattr(serve_config, "build", lambda _: raising(Asked()))
    made = config(**own)
    try:
        settings = {**plain_values(made), "gamma": 3, "target": {}}
        serve_config.vllm_settings(settings, build(made["drafter"]), Path("not-there"))
        taken = True
    except Asked:
        taken = True
    except ConfigError:
        taken = False
    assert pasted(made).get("vllm", "").startswith("outrider serve-config gamma=3") == taken


def raising(error: Exception) -> None:
    raise error


LIBRARY = Path(xllamacpp.xllamacpp.__file__).read_bytes()
PLACES = {
    "--spec-draft-model": "draft.mparams.path",
    "--spec-draft-n-max": "draft.n_max",
    "--spec-draft-p-min": "draft.p_min",
    "--spec-ngram-simple-size-n": "ngram_simple.size_n",
    "--spec-ngram-simple-size-m": "ngram_simple.size_m",
}
"""What llama.cpp's own parser sets in `common_params_speculative` by each option."""


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("prompt_lookup", {"max_n": 4}),
        ("small_lm", {"model": "org/a", "policy": {"policy": "confidence", "threshold": 0.5}}),
        *((name, {"path": "org/b"}) for name in ("eagle3", "dflash", "mtp")),
    ],
)
def test_llama_cpp_takes_each_option_with_its_value(name: str, own: dict[str, Any]) -> None:
    params = xllamacpp.CommonParams().speculative
    options = values(pasted(config(name, **own))["llama.cpp"])
    kind = f"COMMON_SPECULATIVE_TYPE_{options.pop('--spec-type').replace('-', '_').upper()}"
    assert hasattr(xllamacpp.common_speculative_type, kind)
    for option, value in options.items():
        assert option.encode() in LIBRARY  # its argument parser is in it
        *path, last = PLACES[option].split(".")
        part = params
        for step in path:
            part = getattr(part, step)
        given = type(getattr(part, last))(value)
        setattr(part, last, given)
        assert getattr(part, last) == given


def test_a_rule_a_policy_and_a_budget_of_its_own_are_in_the_line() -> None:
    policy = {"policy": "confidence", "threshold": 0.5}
    line = pasted(config("bigram", verifier="block", policy=policy, budget=9), 2)["outrider"]
    wanted = {"budget=9", "verifier=block", "policy=confidence", "policy.threshold=0.5"}
    assert wanted <= {*shlex.split(line)}


def test_a_token_reads_a_share_of_a_mixture_of_experts() -> None:
    class Experts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.config: Any = SimpleNamespace(num_experts=8, num_experts_per_tok=2)
            self.config.get_text_config = lambda: self.config
            self.mlp: Any = torch.nn.Module()
            self.mlp.experts = torch.nn.Linear(8, 10, bias=False)
            self.head = torch.nn.Linear(2, 10, bias=False)

    target: Any = SimpleNamespace(model=Experts(), offers={"model"})
    drafter: Any = SimpleNamespace(models=[torch.nn.Linear(2, 5, bias=False)])
    (line,) = experts_read(target, drafter)  # 20 + 80 / 4 of 100, and 10
    assert "40% of this mixture" in line and "0.25 times" in line
    assert experts_read(target, SimpleNamespace(models=[])) == []
    target.model.config.num_experts = 0
    assert experts_read(target, drafter) == []
