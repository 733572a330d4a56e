"""Drafters in one comparison, each with a rule, a policy and lengths of its own."""

import json
from pathlib import Path
from typing import Any

import pytest

SEVERAL = (
    "drafters=[none,bigram,{drafter: bigram, gamma: 4},"
    "{drafter: token_recycling, verifier: candidates, budget: 6},"
    "{drafter: bigram, tree: 2x2, budget: 6, policy: {policy: entropy, limit: 0.5},"
    " verifier: traversal},"
    "{drafter: bigram, verifier: {verifier: lenient, lenience: 0.2}, name: mild}]"
)
NAMES = [
    "none", "bigram", "bigram (gamma 4)", "token_recycling (candidates, budget 6)",
    "bigram (traversal, entropy, budget 6)", "mild",
]  # fmt: skip


def test_each_drafter_runs_with_its_own_settings(compared: Any, tmp_path: Path) -> None:
    words = (SEVERAL, "turns=1", "sampling=standard", "max_new_tokens=16")
    printed, report = compared(*words, "reports=[]")
    rows = {row["drafter"]: row for row in report["rows"]}
    assert list(rows) == NAMES
    assert [rows[name]["gamma"] for name in NAMES] == [2, 2, 4, 2, 2, 2]
    assert [len(rows[name]["depths"]["alpha_at"]) for name in NAMES[1:3]] == [2, 4]
    assert [name for name in NAMES if not rows[name]["lossless"]] == ["mild"]
    assert "mild (lossy)" in printed and "LOSSY: the rule of mild does not keep" in printed
    config = report["drafters"]["token_recycling (candidates, budget 6)"]
    assert config["budget"] == 6 and config["verifier"]["_target_"].endswith("Candidates")
    assert "gamma" not in config
    # What a variant is measured to do is what a run of it alone does.
    _, deep = compared("drafters=[bigram]", "gamma=4", *words[1:], "reports=[]", out="deep")
    for name in ("alpha", "alpha_low", "counts", "depths", "expected_block_efficiency"):
        assert rows["bigram (gamma 4)"][name] == deep["rows"][0][name]
    # A run that goes on has the same variants.
    lines = tmp_path / "out" / "measurements.jsonl"
    lines.write_text("".join(lines.read_text().splitlines(keepends=True)[:9]))
    other = SEVERAL.replace("gamma: 4", "gamma: 5, name: 'bigram (gamma 4)'")
    refusal, _ = compared(other, *words[1:], "resume=true", status=1)
    assert "resume: drafters.bigram (gamma 4).gamma is 5 now, and was 4" in refusal


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{drafter: bigram, gama: 3}", "drafters: bigram.gama: did you mean 'gamma'"),
        ("{drafter: bigram, gamma: 0}", "drafters: bigram (gamma 0).gamma=0: expected"),
        ("{drafter: bigram, verifier: tokn}", "verifier='tokn': did you mean 'token'"),
        ("{drafter: bigram, verifier: {verifier: lenient, lenience: 7}}", "verifier.lenience=7"),
        ("{drafter: token_recycling, budget: 8}", "{drafter: token_recycling, verifier: ...}"),
        ("bigram,bigram", "two are named 'bigram'"),
    ],
)
def test_a_variant_that_can_not_run_is_refused_before_any_job(
    run: Any, quick: list[str], tmp_path: Path, entry: str, said: str
) -> None:
    sweep = ("--multirun", "gamma=2,3", f"hydra.sweep.dir={tmp_path / 's'}")
    status, out, err = run("compare", *quick, f"drafters=[{entry}]", *sweep)
    assert status == 1
    assert len(err.strip().splitlines()) == 1, err
    assert said in err
    assert not (tmp_path / "s").exists() and not out


def test_a_misspelt_reference_is_refused_before_any_job(
    run: Any, quick: list[str], tmp_path: Path
) -> None:
    sweep = ("--multirun", "gamma=2,3", f"hydra.sweep.dir={tmp_path / 's'}")
    line = run.refused("compare", *quick, "reference=bigrm", *sweep)
    assert "reference='bigrm': expected a drafter; did you mean 'bigram'" in line
    assert not (tmp_path / "s").exists()


def test_variants_are_read_from_a_file(run: Any, quick: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "conf" / "experiment"
    folder.mkdir(parents=True)
    own = folder / "mine.yaml"
    own.write_text(
        "# @package _global_\n"
        "drafters:\n"
        "  - none\n"
        "  - drafter: token_recycling\n"
        "    verifier: candidates\n"
        "    budget: 6\n"
    )
    asked = [word for word in quick if not word.startswith("drafters=")]
    run.done(
        "compare", *asked, "+experiment=mine", f"hydra.searchpath=[file://{tmp_path / 'conf'}]",
        "turns=1", "protocol=decode", "reports=[]", "hydra.run.dir=out",
    )  # fmt: skip
    drafters = json.loads((tmp_path / "out" / "run.json").read_text())["drafters"]
    assert list(drafters) == [NAMES[0], NAMES[3]]
    assert drafters[NAMES[3]]["budget"] == 6
