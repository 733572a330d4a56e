"""`outrider plugins`: what each registered part is and needs."""

import json
from typing import Any

import pytest

from outrider.plugins.registry import installed


def test_the_list_of_plugins_names_the_needs_of_each_part(run: Any) -> None:
    out = run.done("plugins")
    assert "…" not in out  # nothing is cut where it is piped
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "LOSSY" in lines["lenient"] and "LOSSY" not in lines["token"]
    assert "medusa*" in lines and "prompt_lookup" in lines
    heads = [line.split()[0] for line in out.splitlines() if line[:1].strip()]
    parts = len(installed().entries)
    assert len(out.splitlines()) == parts + len(heads)  # one line each
    out = run.done("plugins", "--json")
    parts = {(part["role"], part["name"]): part for part in json.loads(out)}
    assert parts["drafter", "prompt_lookup"]["needs"] == []
    assert parts["drafter", "prompt_lookup"]["about"].startswith("Prompt lookup: copies")
    assert parts["drafter", "hydra"]["needs"] == [
        "weights (train recipe=hydra)", "the target's states", "path="
    ]  # fmt: skip
    assert parts["drafter", "token_recycling"]["needs"] == ["trees"]


@pytest.mark.parametrize(
    ("words", "role", "names"),
    [
        (["policy"], "policy", list(installed().of("policy"))),
        (["drafter", "eagle"], "drafter", ["eagle"]),
        (["lenient"], "verifier", ["lenient"]),
    ],
)
def test_roles_and_names_filter_the_list(
    run: Any, words: list[str], role: str, names: list[str]
) -> None:
    facts = json.loads(run.done("plugins", *words, "--json"))
    assert [(part["role"], part["name"]) for part in facts] == [(role, name) for name in names]
    assert all(name in run.done("plugins", *words) for name in names)


def test_an_unknown_word_offers_the_nearest(run: Any) -> None:
    assert "'eagel': expected a role or a name; did you mean" in run.refused("plugins", "eagel")
