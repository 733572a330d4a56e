"""A config file that is broken in any way is one line with its name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider import ConfigError

BROKEN: Mapping[str, tuple[bytes, str]] = {
    "open": (b"order: [\n", ":2: expected the node content"),
    "colons": (b"a: b: c\n", ":1: mapping values are not allowed here"),
    "tab": (b"\t\n", ":1: found character"),
    "latin1": (b"# \xff\norder: 3\n", ": expected text in UTF-8"),
    "code": (b"x: !!python/object:os.system {}\n", ":1: could not determine a constructor"),
    "nul": (b"\x00", ": special characters are not allowed"),
    "twice": (b"order: 3\norder: 4\n", ":2: found duplicate key order"),
    "alias": (b"order: *nothing\n", ":1: found undefined alias"),
    "deep": (b"[" * 2000, ": maximum recursion depth exceeded"),
    "list": (b"- 1\n", ": expected settings, as NAME: VALUE"),
    "text": (b"drafter bigram\n", ": expected settings, as NAME: VALUE"),
    "word": (b"greedy", ": expected settings, as NAME: VALUE"),
    "colon without a space": (b"order:3\n", ": expected settings, as NAME: VALUE"),
    "quotation": (b"'order: 3'\n", ": expected settings, as NAME: VALUE"),
    "number": (b"3\n", ": Invalid loaded object type: int"),
    "null key": (b"~: 2\n", ": Incompatible key type 'NoneType'"),
    "interpolation": (b"order: ${\n", ": no viable alternative at input '${'"),
    "defaults": (b"defaults: 3\n", ": defaults: expected a list of names, or of GROUP: NAME"),
    "numbers": (b"defaults:\n  - 3\n", ": defaults: expected a list of names"),
    "group": (b"defaults:\n  - override /drafter: [3]\n", ": defaults: expected a list"),
}


@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.parametrize("group", ["drafter", "experiment"])
def test_a_broken_file_is_named(tmp_path: Path, fault: str, group: str) -> None:
    content, line = BROKEN[fault]
    file = tmp_path / group / "mine.yaml"
    file.parent.mkdir()
    file.write_bytes(content)
    chosen = f"{'+' if group == 'experiment' else ''}{group}=mine"
    with pytest.raises(ConfigError) as caught:
        outrider.compose("generate", [chosen, f"hydra.searchpath=[{tmp_path}]"])
    assert str(caught.value).startswith(f"{file}{line}") and "\n" not in str(caught.value)


@pytest.mark.parametrize("command", ["generate", "compare"])
def test_a_broken_file_of_an_own_folder_ends_a_command(
    run: Any, tmp_path: Path, command: str
) -> None:
    file = tmp_path / "own" / "drafter" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("_target_: [\n")
    chosen = {"generate": "drafter=mine", "compare": "drafters=[none,mine]"}[command]
    status, printed, complaint = run(command, "target=tabular", "--config-dir=own", chosen)
    assert (status, printed) == (1, "")
    assert "own/drafter/mine.yaml:2: expected the node content" in complaint
    assert complaint.count("\n") == 1


def test_a_file_that_names_itself_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text("defaults: [mine]\n")
    with pytest.raises(ConfigError, match="a config names itself among"):
        outrider.compose("generate", ["+experiment=mine", f"hydra.searchpath=[{tmp_path}]"])


def test_defaults_of_every_form_are_read(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\ndefaults:\n  - optional other: null\n  - _self_\n"
        "  - override /drafter: bigram\ngamma: 2\n"
    )
    config = outrider.compose("generate", ["+experiment=mine", f"hydra.searchpath=[{tmp_path}]"])
    assert (config.gamma, "order" in config.drafter) == (2, True)
