"""`outrider serve-check` with a stand-in for vLLM: what it sends, compares and refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny.profile_rules import checked as profiled

from outrider import generate
from outrider.plugins.parts import make

TOKENS = 6


@pytest.fixture
def checked(run: Any, folder: Path, data: Path, vllm: Any, tmp_path: Path) -> Callable[..., Any]:
    """Runs the command against a server that answers as the target would.

    changed: what the server adds to one token when it drafts. what: in which texts.
    """
    target = make("target", str(folder))

    def go(*arguments: str, changed: int | None = None, what: str = "drafted", **more: Any) -> Any:
        lines = [json.loads(line) for line in data.read_text().splitlines()]
        prompts = [target.encode_turns([line["turns"][0]], chat=False) for line in lines]
        keys = [json.dumps(ids) for ids in prompts]
        texts = [generate(target, ids, "none", max_new_tokens=TOKENS).tokens for ids in prompts]
        if changed is not None:
            changed_text = [*texts[0][:2], (texts[0][2] + changed) % target.vocab_size]
            more[what] = dict(zip(keys, [changed_text, *texts[1:]], strict=True))
        python = vllm(dict(zip(keys, texts, strict=True)), **more)
        status, out, err = run(
            "serve-check",
            "target=transformers",
            f"target.model={folder}",
            "data=jsonl",
            f"data.path={data}",
            "chat=false",
            f"max_new_tokens={TOKENS}",
            f"vllm={python}",
            "audit=0",
            f"hydra.run.dir={tmp_path / 'out'}",
            *arguments,
        )
        return status, out, err

    return go


def test_texts_and_counts_side_by_side(checked: Any, tmp_path: Path) -> None:
    status, out, err = checked("drafters=[prompt_lookup,bigram]", "gamma=2")
    assert status == 0, err
    assert "3 prompts, 8 clients, gamma 2" in out
    facts = json.loads((tmp_path / "out" / "serve-check.json").read_text())
    assert list(facts["drafters"]) == ["prompt_lookup", "bigram"]
    for drafter_facts in facts["drafters"].values():
        assert drafter_facts["differences"] == []
        assert drafter_facts["vllm"] == {
            "drafts": 6,
            "drafted": 12,
            "accepted": 6,
            "by_position": [6, 0],
        }  # as the stand-in says
        assert drafter_facts["lab"]["drafts"] >= drafter_facts["lab"]["accepted"] / 2
    assert "3 of 3" in out
    profile = profiled(tmp_path / "out" / "profiles" / "bigram" / "speculation_profile.json")
    assert (profile["method"], profile["marginal_accept_rates"]) == ("ngram", [1, 0])
    words, drafter = json.loads((tmp_path / "out" / "bigram.log").read_text().splitlines()[0])
    assert json.loads(drafter)["_target_"] == "outrider.drafters.ngram.bigram"
    assert json.loads(words[-3])["num_speculative_tokens"] == 2
    words, drafter = json.loads((tmp_path / "out" / "plain.log").read_text().splitlines()[0])
    assert drafter is None and "--speculative-config" not in words


def test_a_differing_text_fails_the_check(checked: Any, tmp_path: Path) -> None:
    status, out, err = checked("drafters=[bigram]", changed=3)
    assert status == 1
    assert (
        "2 texts are not those that vLLM writes without drafts" in err
    )  # alone and beside sampled ones
    assert "2 of 3" in out
    facts = json.loads((tmp_path / "out" / "serve-check.json").read_text())
    (difference,) = facts["drafters"]["bigram"]["differences"]
    assert (difference["prompt"], difference["place"]) == (0, 2) and difference["gap"] > 1e-3


def test_greedy_texts_are_compared_beside_sampled_ones(checked: Any, tmp_path: Path) -> None:
    status, _, err = checked("drafters=[bigram]", "clients=1", changed=3, what="beside_sampled")
    assert status == 1
    assert "1 texts are not those that vLLM writes without drafts" in err
    (facts,) = json.loads((tmp_path / "out" / "serve-check.json").read_text())["drafters"].values()
    assert facts["differences"] == []
    assert [found["place"] for found in facts["beside_sampled"]] == [2]


def test_sampled_texts_are_audited(checked: Any, tmp_path: Path) -> None:
    status, out, err = checked("drafters=[bigram]", "audit=200")
    assert status == 1  # the stand-in writes its greedy texts at every temperature
    assert "bigram: broken: temperature" in out + err
    (facts,) = json.loads((tmp_path / "out" / "serve-check.json").read_text())["drafters"].values()
    assert facts["audit"]["verdict"] == "broken"
    assert facts["audit"]["requests"] <= 200


def test_figures_of_a_drafter_are_kept_if_the_next_server_fails(
    checked: Any, tmp_path: Path
) -> None:
    status, _, err = checked("drafters=[prompt_lookup,bigram]", start="no memory", drafter="bigram")
    assert status == 1
    assert "vLLM did not start: no memory" in err
    facts = json.loads((tmp_path / "out" / "serve-check.json").read_text())
    assert list(facts["drafters"]) == ["prompt_lookup"]


def test_another_version_of_vllm_is_refused_before_the_start(checked: Any, tmp_path: Path) -> None:
    status, _, err = checked(version="0.33.0")
    assert status == 1
    assert "vllm 0.33.0: expected one whose" in err
    assert not list((tmp_path / "out").glob("plain.log"))
