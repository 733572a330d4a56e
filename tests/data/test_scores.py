"""Answers are scored against references, and lossy rules against plain decoding."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from outrider.data.jsonl import jsonl
from outrider.data.prompts import Prompt
from outrider.data.score import Rouge2, judges_of
from outrider.lab.measuring.measurement import Decoding, Measurement
from outrider.lab.statistics.rates import rates_with, scores_in
from outrider.testing import run_checks

SCORES = {"rouge2": Rouge2()}


def test_rouge_2_counts_common_pairs_of_words() -> None:
    prompt = Prompt("s", "summary", ("Sum up.", "Shorter."), (("the cat sat on the mat",), ()))
    score = judges_of(prompt, 1, SCORES)["rouge2"]
    # Four of five pairs are common, both ways.
    assert score("a cat sat on the mat") == pytest.approx(0.8)
    assert score("") == 0
    assert judges_of(prompt, 2, SCORES) == {}
    assert judges_of(Prompt("x", "y", ("z",)), 1, SCORES) == {}
    several = Prompt("s", "summary", ("Sum up.",), (("red blue", "the dog ran"),))
    assert judges_of(several, 1, SCORES)["rouge2"]("the dog ran") == 1  # the best one counts


@pytest.mark.parametrize(
    ("row", "references"),
    [
        ({"prompt": "a", "reference": "one"}, (("one",),)),
        ({"prompt": "a", "reference": [["one", "two"]]}, (("one", "two"),)),
        ({"prompt": "a", "reference": [""]}, ()),
        ({"prompt": "a", "reference": [3.14, "3.1"]}, (("3.14", "3.1"),)),
        ({"prompt": "a"}, ()),
    ],
)  # fmt: skip
def test_a_row_has_its_references_by_turn(
    tmp_path: Path, row: Mapping[str, Any], references: tuple[tuple[str, ...], ...]
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    assert jsonl(str(path))[0].references == references


def test_scores_keep_the_contract() -> None:
    outcomes = list(run_checks(Rouge2))
    assert outcomes and not [each for each in outcomes if each.fault or each.refused]


def scored(prompt: str, own: float | None, plain: float) -> list[Measurement]:
    scores = {} if own is None else {"rouge2": own}
    decoding = Decoding((), 1, 1, 1, scores=scores, plain_scores={**scores, "rouge2": plain})
    return [Measurement(prompt, 1, "x", "drafter", decoding=decoding)]


def test_a_score_is_a_mean_and_its_difference_is_taken_text_by_text() -> None:
    texts = [scored("a", 0.5, 0.25), scored("b", 0.1, 0.25), scored("c", None, 0.0)]
    rates = rates_with(scores_in([measurement for text in texts for measurement in text]))
    assert [*rates][-2:] == ["rouge2", "rouge2_difference"]
    assert float(rates["rouge2"].statistic(texts).value) == pytest.approx(0.3)
    assert float(rates["rouge2_difference"].statistic(texts).value) == pytest.approx(0.05)
    read = Measurement.read(json.loads(json.dumps(texts[0][0].plain())))
    assert read.decoding == texts[0][0].decoding
