"""`outrider plugins`: what each registered part is and needs."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outrider.cli.commands import plugins
from outrider.plugins.entry import Entry
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


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: os.utime(folder / "source.py", ns=(0, 1)),
        lambda folder: (folder / "library-1.0.dist-info").mkdir(),
        lambda folder: (folder / "cache" / "outrider" / "plugins.json").write_text('{"state": 1'),
    ],
    ids=["an edited file", "an installation", "a damaged cache"],
)
def test_facts_of_parts_are_kept_until(
    change: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Entry] = []
    monkeypatch.setattr(plugins, "facts_of", lambda entry: made.append(entry) or {"name": "own"})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "source.py").touch()
    (tmp_path / "cache").mkdir()
    entries = [Entry("data", "own", "source:own", "plugin", "distribution")]
    assert plugins.kept_facts(entries) == plugins.kept_facts(entries) == [{"name": "own"}]
    assert made == entries
    change(tmp_path)
    assert plugins.kept_facts(entries) == [{"name": "own"}]
    assert made == entries * 2
