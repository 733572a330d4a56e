"""What is wrong with a config is one line that names the setting."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider import ConfigError
from outrider.drafters.none import NoDraft
from outrider.plugins.entry import Entry
from outrider.plugins.registry import installed


@dataclass
class Net:
    """A nested setting."""

    width: int = 8


class Netted(NoDraft):
    def __init__(self, net: Net | None = None) -> None:
        self.net = net


@pytest.fixture
def netted(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Entry("drafter", "netted", Netted, "nets", "outrider-nets")
    monkeypatch.setattr(installed(), "entries", [*installed().entries, mine])


@pytest.mark.usefixtures("netted")
def test_a_setting_of_a_mapping_that_is_null_is_named() -> None:
    line = r"^drafter\.net\.width=3: drafter\.net is null; expected drafter\.net=\{width: 3\}$"
    with pytest.raises(ConfigError, match=line):
        outrider.compose("generate", ["drafter=netted", "drafter.net.width=3"])
    config = outrider.compose("generate", ["drafter=netted", "drafter.net={width: 3}"])
    assert outrider.build(config.drafter).net == Net(3)
    assert outrider.build(outrider.compose("generate", ["drafter=netted"]).drafter).net is None


GENERATE = ("generate", "target=tabular", "prompt=[0]", "max_new_tokens=1")


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("--config-name=mine", "mine.yaml: expected it in a folder that -cd names"),
        ("sampling=null", "sampling=null: expected a name, as in GROUP=NAME"),
        ("gamma=${nope}", "gamma: Interpolation key 'nope' not found"),
        ("hydra/launcher=nowhere", "hydra/launcher='nowhere': there are: basic, "),
        ("hydra.job.name=a/b", "b.log: No such file or directory"),
        ("hydra.run.dri=x", "hydra.run.dri: no such setting; did you mean 'dir'?"),
    ],
)
def test_a_word_that_no_config_can_have_is_one_line(run: Any, word: str, line: str) -> None:
    status, printed, complaint = run(*GENERATE, *word.split())
    assert (status, printed) == (1, "") and line in complaint
    assert complaint.count("\n") == 1 and "full_key" not in complaint


def test_a_config_of_ones_own_has_the_commands_defaults_below_it(run: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("defaults: [generate, _self_]\ngamma: 9999")
    own = (*GENERATE, "-cd", str(tmp_path), "--config-name=mine")
    for flags in ([], ["-m"]):
        assert "gamma=9999: expected a whole number" in run(*own, *flags)[2]
    assert run(*own, "~gamma", "~policy")[0] == 0  # neither is set then


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("# @package _global_\ngama: 3\n", "gama: no such setting, it changes nothing; did you me"),
        ("# @package _global_\nn: 3\ngamma: ${n}\n", ""),
        ("# @package _global_\nhydra:\n  job:\n    name: mine\n", ""),
    ],
)
def test_a_key_that_changes_nothing_is_said(
    run: Any, tmp_path: Path, content: str, line: str
) -> None:
    file = tmp_path / "own" / "experiment" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(content)
    status, _, complaint = run(*GENERATE, "--config-dir=own", "+experiment=mine")
    assert status == 0
    assert (line in complaint) if line else ("no such setting" not in complaint)


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("experiment", "gamma: 3\n", "experiment={'gamma': 3}: expected a file that begins with '"),
        ("drafter", "order: 3\n", "drafter={'order': 3}: expected a part; a preset begins with th"),
        ("drafters", "order: 3\n", "drafters: mine={'order': 3}: expected a part; a preset begins"),
    ],
)
def test_a_file_that_sets_nothing_ends_a_command(
    run: Any, tmp_path: Path, name: str, content: str, line: str
) -> None:
    file = tmp_path / "own" / name.removesuffix("s") / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(content)
    words = {
        "experiment": (*GENERATE, "+experiment=mine"),
        "drafter": (*GENERATE, "drafter=mine"),
        "drafters": ("compare", "target=tabular", "drafters=[mine]"),
    }[name]
    assert line in run.refused(*words, "--config-dir=own")


@pytest.mark.parametrize(
    ("command", "word", "line"),
    [
        ("generate", "Name three rivers.", "'Name three rivers.': expected SETTING=VALUE"),
        ("generate", "gamma=[1", "'gamma=[1': expected SETTING=VALUE, brackets closed, and a text"),
        ("generate", "prompt=a, b", "'prompt=a, b': expected --multirun, a text with commas in"),
        ("nonsense", "gamma=3", "command='nonsense': there are: advise, "),
        ("doctor", "gamma=3", "command='doctor': expected one with settings"),
    ],
)
def test_a_word_that_is_no_setting_is_one_line(command: str, word: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        outrider.compose(command, [word])
    assert str(caught.value).startswith(line) and "hydra" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"order: [\n", "{file}:2: expected the node content"),
        (b"defaults: 3\n", "Invalid defaults list in 'drafter/mine'"),
        (b"[" * 2000, "nested too deeply"),
    ],
)
def test_a_broken_file_is_one_line(tmp_path: Path, content: bytes, line: str) -> None:
    file = tmp_path / "drafter" / "mine.yaml"
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        outrider.compose("generate", ["drafter=mine", f"hydra.searchpath=[{tmp_path}]"])
    assert line.format(file=file) in str(caught.value)
    assert "\n" not in str(caught.value)
