"""Arguments: flags anywhere, paths in the home, and a line for what is no setting."""

import pytest

from outrider import ConfigError
from outrider.cli.arguments import arranged, quote_home
from outrider.plugins.registry import command_entry

GENERATE, COMPARE, CHECK = (command_entry(name).source for name in ("generate", "compare", "check"))


@pytest.mark.parametrize(
    ("words", "order"),
    [
        (["a=1", "--config-dir", "D", "b=2"], ["--config-dir", "D", "a=1", "b=2"]),
        (["a=1", "--cfg=job", "b=2", "-m"], ["--cfg=job", "-m", "a=1", "b=2"]),
        (["gamma=3", "--info", "prompt=a, b"], ["--info", "gamma=3", 'prompt="a, b"']),
        (["-m", "prompt=a,b"], ["-m", "prompt=a,b"]),
        (["~drafter", "drafter.path=~/x"], ["~drafter", 'drafter.path="~/x"']),
        (["constraint=null", "gamma=3"], ["gamma=3"]),
        (["gamma=3", "--info", "defaults"], ["--info", "defaults", "gamma=3"]),
        (["gamma=3", "-i=plugins"], ["-i=plugins", "gamma=3"]),
    ],
)
def test_flags_come_first_and_values_are_quoted(words: list[str], order: list[str]) -> None:
    assert arranged(GENERATE, words) == order


def test_folders_that_hydra_makes_or_searches_are_in_the_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert arranged(GENERATE, ["--config-dir=~/c"]) == ["--config-dir=/home/me/c"]
    assert arranged(GENERATE, ["-cd", "~/c"]) == ["-cd", "/home/me/c"]
    assert quote_home("hydra.run.dir=~/runs/1") == 'hydra.run.dir="/home/me/runs/1"'


def test_paths_in_the_home_are_quoted_wherever_they_stand() -> None:
    assert quote_home("data.path=~/a b") == 'data.path="~/a" b'
    assert quote_home("x=[{path: ~/a,n:1},~]") == 'x=[{path: "~/a",n:1},"~"]'
    assert quote_home("x=a~b") == "x=a~b"
    assert quote_home("x='~/a'") == "x='~/a'"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["Name three rivers."], 'expected SETTING=VALUE; a prompt is given as prompt="Name three'),
        (["prompt", "hi"], "prompt: expected a value: prompt=..."),
        (["--prompt", "hi"], "--prompt: settings are written without dashes: prompt=..."),
        (["--config-name=compare"], "--config-name: the command names its config: outrider gen"),
        (["-cn", "compare"], "-cn: the command names its config: outrider generate"),
        (["+hydra.sweeper.params={gamma: '1,2'}"], "expected in a file, or as SETTING=1,2 after"),
        (["--cfg", "jop"], "--cfg=jop: did you mean 'job'?"),
        (["--info", "x"], "--info=x: there are: all, config"),
        (["gamma=3", "--cfg"], "--cfg: expected a value: --cfg=..."),
        (["=3"], "'=3': expected SETTING=VALUE"),
        (["drafter={max_n: 3}"], "expected a name, and its settings as drafter.SETTING=VALUE"),
        (["--foo"], "--foo: no such flag; `outrider generate --help` lists the settings"),
        (["drafter=null"], "drafter=null: expected a name, such as drafter=prompt_lookup"),
    ],
)
def test_a_word_that_sets_nothing_is_one_line(words: list[str], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        arranged(GENERATE, words)
    assert line in str(caught.value)


def test_parts_of_other_commands_may_be_null_where_they_are_by_default() -> None:
    assert arranged(CHECK, ["drafter=null", "verifier=token"]) == ["verifier=token"]
    with pytest.raises(ConfigError, match="--drafters: settings are written without dashes"):
        arranged(COMPARE, ["--drafters", "none"])
