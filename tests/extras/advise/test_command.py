"""`outrider advise` measures half of the prompts, and checks its advice on the other half."""

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.extras.advise.command import at_length
from outrider.lab.measuring.variants import Question, Settings
from outrider.targets.transformers import TransformersTarget


@pytest.fixture
def advised(run: Any, folder: Path, data: Path, tmp_path: Path) -> Any:
    """Runs the command on a tiny model; returns what it printed and what it saved."""

    def go(*arguments: str) -> tuple[str, dict[str, Any]]:
        printed = run.done(
            "advise", "target=transformers", f"target.model={folder}", "data=jsonl",
            f"data.path={data}", "max_new_tokens=16", "gamma=2", f"hydra.run.dir={tmp_path}/out",
            *arguments,
        )  # fmt: skip
        return printed, json.loads((tmp_path / "out" / "advice.json").read_text())

    return go


def test_advice_is_checked_on_the_other_half_and_saved(advised: Any, tmp_path: Path) -> None:
    printed, saved = advised(
        "drafters=[prompt_lookup,{drafter: bigram, policy: confidence},"
        "{drafter: token_recycling, verifier: candidates},token_recycling,eagle]",
        *("concurrency=[1,2]", "contexts=[24]", "costs={prompt_lookup: [1.0,0.5,0.4]}"),
    )
    one, two = saved["outcomes"]
    assert one["title"] == "1 at once, prompts of 24 tokens"
    assert two["title"] == "2 at once, prompts of 24 tokens"
    assert one["costs"]["prompt_lookup"] == [1.0, 0.5, 0.4]
    names = ["bigram (confidence)", "prompt_lookup", "token_recycling (candidates)"]
    assert sorted(row["drafter"] for row in one["settings"]) == names
    assert all(row["measured"] for row in one["settings"])
    assert one["advice"][0] in printed.replace("\n", " ") and "outrider generate gamma=" in printed
    assert {"eagle", "token_recycling"} == saved["left_out"].keys()
    assert "rules that fit" in printed and "left out: eagle" in printed
    profile = json.loads((tmp_path / "out" / "speculation_profile.json").read_text())
    assert profile["num_speculative_tokens"] <= 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["drafters=[eagle]"], "drafters: expected one that fits the target, there is none: eagle"),
        (["data.limit=1"], "data=1: expected two prompts or more"),
        (["drafters=[bigram]", "costs={bigram: [1.0]}"], "costs.bigram=[1.0]: expected a list of"),
    ],
)
def test_settings_that_leave_nothing_to_weigh_are_refused(
    run: Any, folder: Path, data: Path, arguments: list[str], message: str
) -> None:
    target = ("target=transformers", f"target.model={folder}", "data=jsonl", f"data.path={data}")
    assert message in run.refused("advise", *target, *arguments)


def test_prompts_are_cut_in_the_middle_or_have_others_before(llama: Any, words: Any) -> None:
    questions = [Question("a", 1, "x", [1, 2, 3, 4, 5], [6]), Question("b", 1, "x", [7, 8], [9])]
    target, settings = TransformersTarget(llama(3), words), Settings(max_new_tokens=2)
    cut, filled = (at_length(target, questions, settings, length) for length in (3, 9))
    assert [it.tokens for it in cut] == [[1, 4, 5], [1, 7, 8]]
    assert [it.tokens for it in filled] == [
        [7, 8, 9, 7, 1, 2, 3, 4, 5],
        [1, 2, 3, 4, 5, 6, 1, 7, 8],
    ]
    assert all(len(it.text) <= 2 and it.text for it in (*cut, *filled))
