"""Samples that lm-evaluation-harness logged join the tables of pairs."""

import json
from pathlib import Path
from typing import Any

import pytest

from outrider import ConfigError
from outrider.lab.tables.harness_samples import harness_pairs, harness_runs, means

DATE = "2026-11-26T04-50-13.125000"


def sample(number: int, **scores: Any) -> dict[str, Any]:
    """Returns what the harness writes of one document and one filter."""
    return {
        "doc_id": number, "doc": {"question": f"What is {number} plus 1?"},
        "target": str(number + 1),
        "arguments": {"gen_args_0": {"arg_0": f"Q: {number} plus 1", "arg_1": {"until": ["\n"]}}},
        "resps": [[" the answer"]], "filtered_resps": [" the answer"],
        "filter": scores.pop("filter", "none"), "metrics": list(scores), "doc_hash": f"d{number}",
        "prompt_hash": f"p{number}", "target_hash": f"t{number}", **scores,
    }  # fmt: skip


def written(
    folder: Path, samples: list[dict[str, Any]], task: str = "plus", date: str = DATE
) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(each) + "\n" for each in samples)
    (folder / f"samples_{task}_{date}.jsonl").write_text(text)
    return str(folder)


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    exact = [sample(number, exact_match=1.0) for number in range(12)]
    lossy = [sample(number, exact_match=float(number < 4)) for number in range(1, 13)]
    return [
        written(tmp_path / "exact" / "smollm2", exact),
        written(tmp_path / "lenient" / "smollm2", lossy),
    ]


def test_runs_are_paired_on_the_documents_that_both_have(folders: list[str]) -> None:
    (pair,) = harness_pairs(harness_runs([Path(folder) for folder in folders]))
    assert (pair.rate, pair.one, pair.other) == ("plus: exact_match", *folders)
    assert pair.prompts == 11
    assert pair.difference.value == pytest.approx(8 / 11)
    assert pair.p == pytest.approx(2 * 2**-8)  # eight documents of one sign, the others equal
    assert pair.significant


def test_a_document_that_was_asked_otherwise_is_another_one(tmp_path: Path) -> None:
    one, other = sample(1, acc=1.0), sample(1, acc=0.0) | {"prompt_hash": "of five shots"}
    folders = [Path(written(tmp_path / str(n), [each])) for n, each in enumerate((one, other))]
    assert harness_pairs(harness_runs(folders)) == []


def test_the_newest_samples_of_a_task_count_and_filters_are_apart(tmp_path: Path) -> None:
    written(tmp_path, [sample(1, acc=0.0)], date="2026-11-25T23-00-00.000001")
    strict = sample(1, exact_match=True, filter="strict-match")
    written(tmp_path, [sample(1, acc=1.0), strict, sample(2, acc=0.5, bleu=["a", "b"])])
    written(tmp_path, [sample(7, acc=0.25)], task="plus_two")
    (found,) = means(harness_runs([tmp_path])).values()
    values = {name: mean.value for name, mean in found.items() if mean}
    assert values == {
        "plus: acc": 0.75,
        "plus: exact_match, strict-match": 1.0,
        "plus_two: acc": 0.25,
    }


def test_a_line_that_is_no_sample_is_named(tmp_path: Path) -> None:
    written(tmp_path, [sample(1, acc=1.0), {"doc_id": 2}])
    with pytest.raises(ConfigError, match=r"plus_.*jsonl, line 2: expected a sample of lm-eval"):
        harness_runs([tmp_path])


def test_samples_stand_beside_runs_of_compare(
    compared: Any, run: Any, folders: list[str], tmp_path: Path
) -> None:
    compared("protocol=overlap", "reports=[]", "drafters=[bigram]", "data.limit=1")
    for runs in ([], [str(tmp_path / "out")]):
        printed = run.done("report", *runs, *folders, "--out", str(tmp_path / "all"))
        assert "lm-evaluation-harness" in printed and "differences on the same prompts" in printed
        assert ("bigram" in printed) == bool(runs)
        report = json.loads((tmp_path / "all" / "report.json").read_text())
        assert report["harness"][folders[0]]["plus: exact_match"]["value"] == 1.0
        assert report["harness_pairs"][0]["p"] < 0.05
