"""Arguments: flags anywhere, texts and paths in the home quoted, and a line for what is no flag."""

from dataclasses import replace

import pytest

from outrider import ConfigError
from outrider.cli.arguments import arranged
from outrider.plugins.config import compose
from outrider.plugins.registry import command_entry

GENERATE, CHECK = (command_entry(name).source for name in ("generate", "check"))


@pytest.mark.parametrize(
    ("words", "order"),
    [
        (["a=1", "-cd", "D", "b=2"], ["--config-dir=D", "a=1", "b=2"]),
        (["a=1", "--cfg=job", "b=2", "-m"], ["--cfg=job", "--multirun", "a=1", "b=2"]),
        (["prompt=a, b", "--info"], ["--info=all", 'prompt="a, b"']),
        (["-m", "prompt=a,b"], ["--multirun", "prompt=a,b"]),
        (["constraint=null", "gamma=3"], ["gamma=3"]),
        (["prompt=[0,1]"], ["prompt=[0,1]"]),
        (["prompt=[a b,'c,d']"], ['prompt=["a b","c,d"]']),
        (["prompt=[${oc.env:X}]"], ['prompt=["\\${oc.env:X}"]']),
        (['prompt="in, marks"'], ['prompt="in, marks"']),
        (["constraint.pattern=[A-Z][a-z]+"], ['constraint.pattern="[A-Z][a-z]+"']),
        (["drafters=[none,{drafter: bigram}]"], ["drafters=[none,{drafter: bigram}]"]),
        (["~drafter", "drafter.path=~/x"], ["~drafter", 'drafter.path="~/x"']),
        (["x=[{path: ~/a,n:1},~]", "y=a~b"], ['x=[{path: "~/a",n:1},"~"]', 'y="a~b"']),
        (["--config-dir=~/c"], ["--config-dir=/home/me/c"]),
        (
            ["x=[plüsch,{a: ~/b}, 'c ~d', 日本 語]"],
            ['x=["plüsch",{a: "~/b"}, \'c ~d\', "日本 語"]'],
        ),
        (["-m", "drafter=plüsch,bigram"], ["--multirun", 'drafter="plüsch",bigram']),
        (["hydra.run.dir=~/runs/1"], ['hydra.run.dir="/home/me/runs/1"']),
        (["Name three rivers."], ["Name three rivers."]),  # which Hydra can't read
    ],
)
def test_flags_come_first_and_values_are_quoted(
    words: list[str], order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert arranged(GENERATE, words) == order


def test_words_that_are_no_settings_may_stand_for_some() -> None:
    command = replace(GENERATE, words=lambda words: [f"n={len(words)}", f"last={words[-1]}"])
    order = ["n=2", "last=http://host/v1", "a=b"]
    assert arranged(command, ["one", "a=b", "http://host/v1"]) == order


@pytest.mark.parametrize(
    "prompt",
    [
        "the cat, the dog",
        'he said "no" , and (then) {so} : ?',
        "it's a = b",
        "one\ntwo ${three}",
        "back \\${oc.env:HOME} \\\\${oc.env:HOME}",
        "[INST] the cat, [/INST] [bold]",
        "[",
        "'tis so",
        '"a" and "b"',
        "back \\ slash \\",
        'say \\"hi\\\\" \\\\',
        "null",
        "~12",
    ],
)
def test_a_prompt_is_taken_literally(prompt: str) -> None:
    (override,) = arranged(GENERATE, [f"prompt={prompt}"])
    assert compose("generate", [override]).prompt == prompt


def test_parts_may_be_null_where_they_are_by_default() -> None:
    assert arranged(CHECK, ["drafter=null", "verifier=token"]) == ["verifier=token"]
    assert arranged(GENERATE, ["drafter=null"]) == ["drafter=null"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--prompt", "hi"], "--prompt: no such flag; settings are written NAME=VALUE"),
        (["--config-path=mine"], "--config-path='mine': expected --config-dir"),
        (["gamma=3", "--cfg"], "argument --cfg/-c: expected one argument; see outrider generate"),
    ],
)
def test_a_word_that_is_no_flag_is_one_line(words: list[str], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        arranged(GENERATE, words)
    assert line in str(caught.value)
