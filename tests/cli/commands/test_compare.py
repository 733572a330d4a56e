"""`outrider compare` from the command line: the table, the files, and resuming a run."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from outrider import Context, Pen
from outrider.drafters.prompt_lookup import PromptLookup

FILES = {
    "comparison.json", "profiles", "comparison.parquet", "rounds.parquet", "report.html",
    "alpha.png", "run.json", "measurements.jsonl",
}  # fmt: skip


def test_the_table_and_every_file(compared: Any, tmp_path: Path) -> None:
    printed, report = compared()
    assert "prompt_lookup" in printed
    assert "report.html" in printed and "rouge2" not in printed
    assert {path.name for path in (tmp_path / "out").iterdir()} >= FILES
    assert [row["drafter"] for row in report["rows"]] == ["none", "prompt_lookup", "bigram"]
    wanted = {"alpha", "alpha_low", "alpha_high", "alpha_tested", "acceptance_rate",
              "block_efficiency", "tokens_per_second", "speedup", "counts"}  # fmt: skip
    assert wanted <= set(report["rows"][0])
    assert report["settings"]["gamma"] == 2
    lines = (tmp_path / "out" / "measurements.jsonl").read_text().splitlines()
    assert len(lines) == 4 * 3 * 2  # of all turns


def test_rules_and_policies_side_by_side(compared: Any, tmp_path: Path) -> None:
    _, report = compared(
        "drafters=[none,bigram]", "verifiers=[token,block,{verifier: lenient, lenience: 0.2}]",
        "sampling=standard", "turns=1",
    )  # fmt: skip
    rows = {row["drafter"]: row for row in report["rows"]}
    assert list(rows) == [
        f"{d}/{v}" for d in ("none", "bigram") for v in ("token", "block", "lenient")
    ]
    assert rows["bigram/token"]["lossless"] and not rows["bigram/lenient"]["lossless"]
    assert rows["bigram/token"]["alpha"] == rows["bigram/block"]["alpha"]
    assert rows["bigram/lenient"]["alpha_rule"] > rows["bigram/token"]["alpha_rule"]
    assert rows["bigram/block"]["alpha_rule"] is None  # it looks at whole blocks
    assert report["lossless"] is False
    _, report = compared("drafters=[bigram]", "policies=[fixed]", "turns=1", out="policies")
    assert [row["drafter"] for row in report["rows"]] == ["bigram/fixed"]
    lines = (tmp_path / "policies" / "measurements.jsonl").read_text().splitlines()
    assert len(lines) == 3 * 1 * 2  # of first turns


def test_only_the_same_config_resumes(compared: Any, tmp_path: Path) -> None:
    compared("protocol=overlap")
    lines = tmp_path / "out" / "measurements.jsonl"
    first_lines = lines.read_text().splitlines(keepends=True)[:4]
    lines.write_text("".join(first_lines))
    printed, _ = compared("protocol=overlap", "resume=true", "gamma=3", status=1)
    assert "resume: gamma is 3 now, and was 2 in" in printed
    printed, _ = compared("protocol=overlap", status=1)
    assert "resume=False: expected true, since" in printed
    assert lines.read_text() == "".join(first_lines)
    (lines.parent / "run.json").unlink()
    printed, _ = compared("protocol=overlap", "resume=true", out="new", status=1)
    assert "resume=True: expected an unfinished run in" in printed


def test_a_drafter_that_fails_leaves_the_others(
    compared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: PromptLookup, context: Context, pen: Pen) -> None:
        if len(context.tokens) > 12:
            raise ZeroDivisionError("by accident")

    words = ("drafters=[none,prompt_lookup,bigram]", "turns=1", "reports=[]")
    with monkeypatch.context() as patch:
        patch.setattr(PromptLookup, "propose", fails)
        printed, report = compared(*words, status=1)
    line = "drafter PromptLookup raised ZeroDivisionError: by accident ("
    assert f"prompt_lookup failed: {line}" in printed
    assert f"outrider: {line}" in printed and "--traceback shows where" in printed
    assert "No figures of prompt_lookup, which failed at prompt" in " ".join(printed.split())
    assert "resume=true" in printed
    assert line in report["failed"]["prompt_lookup"]
    assert report["finished"] is False
    assert [row["drafter"] for row in report["rows"]] == ["none", "bigram"]
    assert len(report["prompts"]) == 3


def test_texts_are_scored_beside_those_of_plain_decoding(compared: Any, tmp_path: Path) -> None:
    """A lossy rule is judged by what it costs."""
    summary = {"prompt": "the cat sat", "reference": "the cat and the dog sat", "category": "sums"}
    rows = tmp_path / "rows.jsonl"
    other = {"prompt": "the dog ran", "category": "bare"}
    rows.write_text("".join(json.dumps(row) + "\n" for row in (summary, other)))
    settings = ["protocol=decode", f"data.path={rows}", "drafters=[none,bigram]", "by_task=true"]
    lossy = ["sampling=standard", "verifier=lenient", "verifier.lenience=0.1"]
    printed, report = compared(*settings, *lossy, "quality=rouge2")
    for words in ("plain's", "rouge2 by task", "LOSSY"):
        assert words in printed
    none, bigram = report["rows"]
    assert "tokenizer" not in printed  # rouge-score's own log
    assert none["rouge2_difference"] == 0
    difference = bigram["rouge2"] - none["rouge2"]
    assert bigram["rouge2_difference"] == pytest.approx(difference)
    assert bigram["tasks"]["bare"]["rouge2"] is None
    printed, _ = compared(
        f"data.path={rows}", "protocol=overlap", "quality=rouge2", out="x", status=1
    )
    assert "quality=['rouge2']: expected null with protocol=overlap" in printed


def test_more_prompts_are_asked_for_by_the_command_of_the_run(
    compared: Any, quick: list[str]
) -> None:
    printed, _ = compared("data.limit=1", "turns=1", "protocol=overlap")
    own = [*quick, "data.limit=1", "turns=1", "protocol=overlap"]
    same = shlex.join(word for word in own if word != "data.limit=1")
    count = re.search(r"use (\d+) or more", printed)[1]  # type: ignore[index]
    assert (
        f"{count} prompts would say more: outrider compare {same} data.limit={count}\n" in printed
    )


def test_the_command_that_a_run_records_has_its_own_configs(
    run: Any, quick: list[str], tmp_path: Path
) -> None:
    place = tmp_path / "own"
    (place / "drafter").mkdir(parents=True)
    (place / "drafter" / "mine.yaml").write_text("defaults:\n  - bigram\n")
    (place / "runs.yaml").write_text("defaults:\n  - compare\n  - _self_\ngamma: 3\n")
    chosen = ["-cd", "own", "--config-name=runs", "drafters=[none,mine]", "data.limit=1"]
    chosen.append("protocol=overlap")  # what it says depends on no clock
    rest = [word for word in quick if not word.startswith("gamma=")]
    printed = run.done("compare", *rest, *chosen, "hydra.run.dir=out")
    facts = json.loads(Path("out", "run.json").read_text())
    again = shlex.split(facts["starts"][0]["command"])
    assert again[:6] == ["outrider", "compare", "-cd", str(place), "--config-name", "runs"]
    assert shlex.join(again[1:6]) in printed
    run.done(*again[1:], "hydra.run.dir=again")
    assert json.loads(Path("again", "run.json").read_text())["settings"]["gamma"] == 3


@pytest.mark.usefixtures("drawn_once")
def test_the_fastest_stands_first_and_the_page_below(compared: Any, tmp_path: Path) -> None:
    printed, report = compared("turns=1")
    is_doubtful = any(row["doubts"] for row in report["rows"])
    rate = "block_efficiency" if is_doubtful else "speedup"
    rows = sorted(report["rows"], key=lambda row: -row[rate])
    order = [row["drafter"].replace("none", "plain decoding") for row in rows]
    places = [printed.index(f"\n  {name} ") for name in order]
    assert places == sorted(places), printed
    assert (tmp_path / "out" / "report.html").as_uri() in printed


@pytest.mark.parametrize(
    ("columns", "shown"), [("all", "median"), ("[acceptance_rate,speedup]", "of drafted")]
)
def test_columns_are_all_or_those_that_are_named(compared: Any, columns: str, shown: str) -> None:
    printed, _ = compared("protocol=decode", f"columns={columns}", "reports=[]")
    head = " ".join(printed.partition("───")[0].split()).rpartition("CPU cores")[2]
    assert shown in head and "of drafted" in head
    assert ("per call" in head) == (columns == "all")
