"""The console script: commands run, and a mistake gives one line."""

import json
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from outrider import Context, Counts, Drafter, Pen
from outrider.cli.usage import GROUPS, read_settings
from outrider.plugins import registry as plugins

COMMANDS = plugins.installed().commands
CONFIGURED = [name for name, command in COMMANDS.items() if not command.plain]
TABULAR = ("target=tabular", "prompt=[0,1]", "max_new_tokens=12")


class Fails(Drafter):
    """Fails in its third round."""

    rounds = 0

    def propose(self, context: Context, pen: Pen) -> None:
        self.rounds += 1
        if self.rounds == 3:
            raise ZeroDivisionError("by accident")


def written(folder: Path, name: str) -> Any:
    (path,) = folder.rglob(name)
    return json.loads(path.read_text())


def test_version(run: Any) -> None:
    for arguments in (("--version",), ("generate", "--version")):
        assert run(*arguments) == (0, f"outrider {version('outrider')}\n", "")


def test_help_needs_no_hydra(run: Any) -> None:
    for arguments in ((), ("--help",), ("help",)):
        assert "outrider generate" in run.done(*arguments)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("generat",), "'generat': did you mean 'generate'?"),
        (("generate", "target=tabular"), "prompt: expected a value: prompt=..."),
        (("generate", "temperature=1"), "such setting; did you mean 'sampling.temperature'?"),
        (("train", "recipe.steps=3"), "recipe=classifier has it; there are: recipe."),
        (("compare", "recipe=medusa"), "recipe: no such setting; check, train have it"),
        (("check", "drafter=eagle"), "tiny target of their own: for trained networks set path=unt"),
        (("report", "runs", "--fromat=csv"), "unrecognized arguments: --fromat=csv; see outrider"),
        (
            ("generate", "target=tabular", "prompt=\udcff"),
            "argument='prompt=\\udcff': expected text",
        ),
    ],
)
def test_a_fault_is_one_line(run: Any, arguments: tuple[str, ...], line: str) -> None:
    err = run.refused(*arguments)
    assert line in err
    assert err.startswith("outrider: ")
    assert err.count("\n") == 1


def test_a_command_without_its_libraries_has_its_help(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrider.plugins.entry.lacking", lambda *_: ["gone"])
    assert "usage: outrider view" in run.done("view", "--help")
    for command in ("view", "audit"):
        assert f"outrider {command} needs gone: pip install" in run.refused(command)


def test_generate_writes_the_streamed_text(run: Any, tmp_path: Path) -> None:
    out = run.done("generate", *TABULAR, "drafter=random", "sampling=standard")
    report = written(tmp_path, "generation.json")
    counts = report["counts"]
    assert set(counts) == {"rounds", "drafted", "tested", "accepted", "emitted"}
    assert set(report["seconds"]) == {"draft", "score", "verify", "total"}
    assert len(report["tokens"]) == counts["emitted"] == 12
    assert len(report["rounds"]) == counts["rounds"]
    assert report["text"] == ""  # a table has no tokenizer
    assert report["stop"] == "max_new_tokens"
    assert report["lossless"] is True
    assert report["error"] is None
    cost = Counts(**counts).told(report["seconds"]["total"])
    assert f"\n{cost}; seed={report['seed']} writes it again\naccepted  recovered" in out
    assert "draft_" not in out
    seed = f"sampling.seed={report['seed']}"
    again = run.done("generate", *TABULAR, "drafter=random", "sampling=standard", seed, "--json")
    assert json.loads(again)["tokens"] == report["tokens"]


def test_check_fails_where_a_check_does(run: Any) -> None:
    status, out, err = run("check", "drafter=none", f"drafter._target_={__name__}.Fails")
    assert status == 1
    assert out.splitlines()[1].split()[0] == "NO" and "lossless" not in out
    assert "checks failed" in err


def test_control_characters_of_a_text_do_not_reach_the_terminal(
    run: Any, monkeypatch: pytest.MonkeyPatch, outcome: Any
) -> None:
    pieces = ("\x1b[2J\r\b\t", "[/x]")
    round = replace(outcome(1, 1), origins=("accepted", "bonus"), pieces=pieces, stop="eos")
    monkeypatch.setattr(
        "outrider.cli.commands.generate.decode", lambda *_, **options: iter([round])
    )
    monkeypatch.setattr("outrider.targets.tabular.TabularTarget.tokenizer", object())
    out = run.done("generate", *TABULAR)
    assert "\\x1b[2J\\r\\x08\\t[/x]" in out
    assert not {"\x1b", "\r", "\b", "\t"} & set(out)


def test_a_sweep_on_joblib_runs_each_job(run: Any, tmp_path: Path) -> None:
    run.done(
        "generate",
        *TABULAR,
        *("--multirun", "gamma=1,2", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"),
    )
    assert len(list((tmp_path / "multirun").rglob("generation.json"))) == 2


@pytest.mark.parametrize("command", CONFIGURED)
def test_help_has_examples_and_every_setting_of_the_command(command: str, run: Any) -> None:
    out = run.done(command, "--help")
    assert f"  outrider {command} " in out
    settings = read_settings(command)
    assert all(f"  {name}=" in out for name in settings.values)
    assert all(settings.comments.get(name) or name in GROUPS for name in settings.groups)
    assert all(len(line) <= 100 for line in out.splitlines())
    assert "--quiet" in out and ("--json" in out) == COMMANDS[command].json


def test_completion_is_installed_and_answers(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    out = run.done("-sc", "install=bash")
    assert out.rstrip().endswith("-F hydra_bash_completion outrider")
    monkeypatch.setenv("COMP_LINE", "outrider")
    assert set(run.done("-sc", "query=bash").split()) == set(COMMANDS)


def test_a_single_run_leaves_the_files_of_hydras_own_launch(run: Any, tmp_path: Path) -> None:
    words = ["generate", "target=tabular", "prompt=[0,1]", "max_new_tokens=4", "chat=false"]
    assert run(*words, "hydra.run.dir=single")[0] == 0
    assert run(*words, "hydra.run.dir=hydras", "--run")[0] == 0
    names = {path.name for path in (tmp_path / "hydras" / ".hydra").iterdir()}
    assert names == {"config.yaml", "hydra.yaml", "overrides.yaml"}
    for name in names:
        single, hydras = (tmp_path / way / ".hydra" / name for way in ("single", "hydras"))
        assert single.read_text() == hydras.read_text().replace("hydras", "single"), name
