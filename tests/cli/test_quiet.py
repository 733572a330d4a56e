"""`--quiet` leaves a command's result on stdout, and its errors on stderr."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from outrider.base.terminal import JSON, QUIET

pytestmark = pytest.mark.usefixtures("drawn_once")
TABULAR = ("target=tabular", "prompt=[0,1]")


def test_a_text_is_all_that_generate_prints(run: Any, folder: Path) -> None:
    words = ("target=transformers", f"target.model={folder}", "prompt=the cat", "max_new_tokens=8")
    status, out, err = run("generate", *words, "hydra.run.dir=out", "--quiet")
    assert (status, err) == (0, "")
    assert out == json.loads(Path("out/generation.json").read_text())["text"] + "\n"
    assert QUIET not in os.environ


def test_a_sweep_prints_no_log(run: Any) -> None:
    sweep = ("generate", "--multirun", "gamma=2,4", *TABULAR)
    status, out, err = run(*sweep, "--quiet")
    assert (status, err) == (0, "") and all(token.isdigit() for token in out.split())
    assert len(out.splitlines()) == 2


def test_compare_and_report_print_their_table(compared: Any, run: Any) -> None:
    printed, _ = compared("turns=1", "--quiet")
    table, report = printed.split("fast", 1)[0], run("report", "out", "--quiet")[1]
    for text in (table, report):
        assert "prompt_lookup" in text
        assert "report.html" not in text
    assert "difference" not in printed and "measuring" not in printed


def test_steps_after_new_plugin_and_legends_are_remarks(run: Any) -> None:
    assert run("new-plugin", "my-bigram", "--quiet") == (0, "", "")
    assert Path("outrider-my-bigram").is_dir()
    _, full, _ = run("theory", "alpha=[.8,.9]")
    _, short, _ = run("theory", "alpha=[.8,.9]", "--quiet")
    assert full.startswith(short) and len(short) < len(full)


def test_json_is_all_of_stdout(run: Any, folder: Path) -> None:
    def content(*words: str) -> Any:
        status, out, err = run(*words, "--json")
        assert (status, err) == (0, "")
        return json.loads(out)

    words = (*TABULAR, "max_new_tokens=4", "hydra.run.dir=out")
    written = content("generate", *words)
    assert written == json.loads(Path("out/generation.json").read_text())
    model = ("target=transformers", f"target.model={folder}", 'prompt=["the","cat"]')
    assert len(content("generate", *model, "max_new_tokens=4")) == 2
    assert {"lossless", "plugin"} <= set(content("plugins")[0])
    (row,) = content("theory", "alpha=1", "gamma=3", "c=0")
    assert (row["gamma"], row["oracle"]) == (3, None)
    assert len(content("theory", "paper=table1")) == 6
    outcomes = content("check", "drafter=none")["drafter"]["checks"]
    assert outcomes and all(outcome["fault"] is None for outcome in outcomes)
    assert JSON not in os.environ and QUIET not in os.environ


def test_json_of_comparisons(run: Any, quick: list[str]) -> None:
    words = (*quick, "turns=1", "protocol=overlap", "hydra.run.dir=out", "--json")
    status, out, err = run("compare", *words)
    assert (status, err) == (0, "")
    assert json.loads(out) == json.loads(Path("out/comparison.json").read_text())
    assert json.loads(run("report", "out", "--json")[1])["rows"]


def test_commands_without_json_refuse_the_option(run: Any) -> None:
    status, out, err = run("new-plugin", "my-bigram", "--json")
    assert (status, out) == (1, "")
    assert "--json: expected one of generate, compare, demo" in err
    assert not Path("outrider-my-bigram").exists()
