"""What the measuring scripts claim, in short: texts agree, a lie is found, memory stays bounded."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import outrider
from outrider import decode_together
from outrider.cli.settings import Compare
from outrider.plugins.config import build, compose
from outrider.plugins.reading import read_settings
from outrider.plugins.registry import installed

EVIDENCE = Path(__file__).parents[1] / "evidence"
UNTRAINED = (
    "hybrid", "quantized", "lookahead_decoding", "rest", "pard", "swift",
    "dflash", "early_exit", "hydra", "peagle", "redrafter",
)  # fmt: skip
"""What tests/drafters/test_built_in.py does not run on SmolLM2."""


SHORT = ["--count", "1", "--tokens", "6", "--only"]


@pytest.mark.usefixtures("few_layers", "prompts_read_once")  # all drafters have the same one
def test_greedy_texts_are_those_of_generate(script: Any) -> None:
    out = script.done(EVIDENCE / "texts.py", *SHORT, *UNTRAINED)
    assert "0 texts of float32 differ" in out


def test_a_text_that_differs_is_reported(
    script: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*arguments: Any, **options: Any) -> Iterator[tuple[int, SimpleNamespace]]:
        text = [
            token for _, round in decode_together(*arguments, **options) for token in round.tokens
        ]
        yield 0, SimpleNamespace(tokens=[*text[:2], text[2] + 1, *text[3:]])

    monkeypatch.setattr(outrider, "decode_together", wrong)
    short = ["--target", str(folder), "--count", "1", "--tokens", "6", "--only", "none"]
    status, out, _ = script(EVIDENCE / "texts.py", *short)
    assert status == 1
    assert "1 texts of float32 differ" in out
    assert "| none | float32 | 1 of 1 |  | 2 (2) |" in out.replace("0 of 1", "")


def test_texts_of_low_precision_are_kept_and_put_on_a_page(
    script: Any, tmp_path: Path, folder: Path, data: Path
) -> None:
    page = tmp_path / "page.md"
    around = "# Before\n\n<!-- precision -->\n{}\n<!-- end of precision -->\n\nAfter.\n"
    page.write_text(around.format("old"))
    modes = ["plain, optimize=none", "plain", "prompt_lookup, batch of 4", "write, batch of 4"]
    arguments = [
        *["--prompts", str(data), "--target", str(folder), "--tokens", "6"],
        *["--results", "kept.jsonl", "--page", str(page), "--modes", "modes", "--only", *modes],
        *["--dtypes", "bfloat16", "float32"],
    ]
    for _ in range(2):  # the second time, all is there
        out = script.done(EVIDENCE / "texts.py", *arguments)
        assert len((tmp_path / "kept.jsonl").read_text().splitlines()) == 2 * 3
    table, _, counts = out.strip().rpartition("\n")
    assert page.read_text() == around.format(table)
    assert "| plain, optimize=none | bfloat16 | 0 of 3 |" in out
    assert counts == "3 prompts, 4 modes: 0 texts of float32 differ"
    arguments[arguments.index("6")] = "5"
    status, _, err = script(EVIDENCE / "texts.py", *arguments)
    assert (status, err.strip().splitlines()[-1]) == (2, "kept.jsonl: tokens 6: expected 5")


@pytest.mark.first
def test_memory_stays_bounded() -> None:
    """In a process of its own, of whose children the largest counts."""
    subprocess.run(
        [sys.executable, EVIDENCE / "memory.py", "--only", "generate", "--tokens", "4"], check=True
    )


def test_every_drafter_that_has_its_weights_is_compared() -> None:
    place = f"hydra.searchpath=[{EVIDENCE / 'conf'}]"
    asked = read_settings(Compare, compose("compare", ["+experiment=drafters", place])).drafters
    made = {type(build(own["drafter"])) for own in asked.values()}
    left = {it.name for it in installed().of("drafter").values() if it.product not in made}
    untrained = {"dflash", "hydra", "mtp", "pard", "peagle", "redrafter"}
    assert left == {*untrained, "assistant", "online", "rest"}


@pytest.mark.usefixtures("drawn_once")
def test_a_pair_fills_its_page(script: Any, folder: Path, data: Path, tmp_path: Path) -> None:
    page = tmp_path / "evidence" / "page.md"
    page.parent.mkdir()
    parts = ("lengths", "drafters", "precisions", "bench")
    (tmp_path / "results" / "bench").mkdir(parents=True)
    ratios = [["ours", "theirs", {"value": 2.0, "low": 1.5, "high": 2.5}]]
    measured = {"tokens_per_second": {"ours": 8.0, "theirs": 4.0}, "ratios": ratios}
    (tmp_path / "results" / "bench" / "bench.json").write_text(json.dumps(measured))
    page.write_text("\n".join(f"<!-- {part} -->\n<!-- end of {part} -->" for part in parts))
    arguments = [
        *["--target", str(folder), "--drafter", str(folder), "--dtype", "float32"],
        *["--prompts", str(data), "--limit", "1", "--tokens", "4", "--quantize", ""],
        *["--temperatures", "1", "--sides", "int8", "bench"],
        *["--beside", "small_lm tree", "hybrid", "prompt_lookup"],
        *["--page", str(page), "--results", "results", "--settings", "cache=false", "reports=[]"],
    ]
    script.done(EVIDENCE / "pair.py", *arguments)
    written = page.read_text()
    rows = [[it.strip() for it in line.split("|")[1:-1]] for line in written.splitlines()]
    by_length = [row[:3] for row in rows if len(row) == 8][2:]
    assert by_length == [["1", gamma, "1.00"] for gamma in "246"]
    names = {row[0] for row in rows if len(row) == 4}
    few = ["`none`", "`small_lm`", "`hybrid`", "`prompt_lookup`"]
    assert names == {"drafter", "---", *few, "`small_lm tree`"}
    by_precision = [tuple(row[:2]) for row in rows if len(row) == 6][2:]
    assert by_precision == [(precision, name) for precision in ("float32", "int8") for name in few]
    runs = {path.stem: json.loads(path.read_text()) for path in page.parent.glob("runs/*")}
    assert ["ours", "theirs", "8.0", "4.0", "2.00 [1.50, 2.50]"] in rows
    assert runs["page-bench"] == measured
    assert runs["page-T1"]["temperature"] == 1
    assert "int8" in runs["page-int8"]["machine"]["runs_by"]["target"]
    assert "small_lm tree" in page.with_name("gains.svg").read_text()
    script.done(EVIDENCE / "pair.py", *arguments)  # nothing is decoded again
    assert page.read_text() == written


def test_simulated_verdicts_are_rarely_false(script: Any) -> None:
    few = ["--experiments", "60", "--drafters", "2", "4", "--prompts", "8", "16"]
    out = script.done(EVIDENCE / "verdicts.py", *few, "--effects", "0", "0.5")
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines()[2:]]
    power = {(*line[:2], line[3]): float(line[5]) for line in lines if line[2] == "0.5"}
    assert 0 < power["4", "16", "all pairs"] < power["4", "16", "reference"]


def test_a_card_is_shown_in_miniature(script: Any, tmp_path: Path) -> None:
    out = script.done(EVIDENCE / "gpu.py", "--miniature", "--out", str(tmp_path / "gpu"))
    results = json.loads((tmp_path / "gpu" / "gpu.json").read_text())
    assert {row["batch"] for row in results["bench"]} == {1, 2}
    by_mode = {row["mode"]: row["tokens_per_call"] for row in results["bench"]}
    assert by_mode["plain"] == by_mode["transformers"] == 1
    assert min(by_mode[name] for name in ("EAGLE-3 chain", "EAGLE-3 tree", "DFlash chain")) > 1
    assert (tmp_path / "gpu" / "gpu.md").read_text() in out
