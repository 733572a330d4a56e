"""Drafters in one comparison, each with a rule, a policy and lengths of its own."""

from pathlib import Path
from typing import Any

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
    tree = rows["bigram (traversal, entropy, budget 6)"]
    assert tree["alpha"] is None and tree["block_efficiency"] > 1
    assert "mild (lossy)" in printed and "LOSSY: the rule of mild does not keep" in printed
    config = report["drafters"]["token_recycling (candidates, budget 6)"]
    assert config["budget"] == 6 and config["verifier"]["_target_"].endswith("Candidates")
    assert "gamma" not in config
    # What a variant is measured to do is what a run of it alone does.
    _, deep = compared("drafters=[bigram]", "gamma=4", *words[1:], "reports=[]", out="deep")
    for name in ("alpha", "alpha_low", "counts", "depths", "expected_block_efficiency"):
        assert rows["bigram (gamma 4)"][name] == deep["rows"][0][name]


def test_a_variant_that_can_not_run_is_refused_before_any_job(
    run: Any, quick: list[str], tmp_path: Path
) -> None:
    misfit = "drafters=[{drafter: token_recycling, budget: 8}]"
    sweep = ("--multirun", "gamma=2,3", f"hydra.sweep.dir={tmp_path / 's'}")
    status, out, err = run("compare", *quick, misfit, *sweep)
    assert (status, out) == (1, "") and not (tmp_path / "s").exists()
    assert len(err.strip().splitlines()) == 1, err
    assert "{drafter: token_recycling, verifier: ...}" in err
