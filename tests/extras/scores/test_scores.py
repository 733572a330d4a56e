"""Answers are scored against references and tests, and lossy rules against plain decoding."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from outrider.base.errors import ConfigError
from outrider.data.jsonl import jsonl
from outrider.data.prompts import CodeTest, Prompt
from outrider.data.rouge import Rouge2
from outrider.data.score import Score, judges_of
from outrider.extras.scores.pass1 import Pass1, program
from outrider.lab.measuring.measurement import Decoding, Measurement
from outrider.lab.runs.table import cell
from outrider.lab.statistics.intervals import Interval
from outrider.lab.statistics.rates import rates_with, scores_in
from outrider.plugins.registry import make
from outrider.testing import run_checks

TASK = CodeTest(
    "import math\n\n\ndef area(r):\n    # The area of a circle.\n",
    "def check(area):\n    assert round(area(2), 3) == 12.566\n",
    "area",
)
CODE = Prompt("c", "code", (TASK.prompt,), code=TASK)
SCORES = {"rouge2": Rouge2(), "pass1": Pass1()}


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("    return math.pi * r**2\n", 1),
        ("    return math.pi * r**2\n\ndef other(:\n", 1),  # what comes after the function is cut
        ("    return math.pi * r\n", 0),
        ("Here it is:\n```python\ndef area(r):\n    return math.pi * r * r\n```\nDone.", 1),
        ("```\ndef area(r):\n    return 3 * r * r\n```", 0),
        ("```py\n    return math.pi * r * r", 1),  # the end of the text cut the fence
        ("I can't.", 0),
    ],
)
def test_code_passes_its_test_or_not(answer: str, score: float) -> None:
    assert judges_of(CODE, 1, SCORES)["pass1"](answer) == score


def test_the_function_of_an_answer_takes_the_place_of_the_prompts() -> None:
    code = program(TASK, "def area(r):\n    return 1\n")
    assert code.count("def area") == 1 and code.startswith("import math")
    assert code.endswith("check(area)\n")


def test_rouge_2_counts_common_pairs_of_words() -> None:
    prompt = Prompt("s", "summary", ("Sum up.", "Shorter."), (("the cat sat on the mat",), ()))
    score = judges_of(prompt, 1, SCORES)["rouge2"]
    # Four of five pairs are common, both ways.
    assert score("a cat sat on the mat") == pytest.approx(0.8)
    assert score("") == 0
    assert judges_of(prompt, 2, SCORES) == {}
    assert judges_of(Prompt("x", "y", ("z",)), 1, SCORES) == {}


def test_a_missing_library_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(ConfigError, match=r"^score=rouge2 needs .*install 'outrider\[quality\]'"):
        make("score", "rouge2")


def test_of_several_references_the_best_counts() -> None:
    prompt = Prompt("s", "summary", ("Sum up.",), (("red blue", "the dog ran"),))
    assert judges_of(prompt, 1, SCORES)["rouge2"]("the dog ran") == 1


@pytest.mark.parametrize(
    ("row", "references"),
    [
        ({"prompt": "a", "reference": "one"}, (("one",),)),
        ({"prompt": "a", "reference": ["one", "two"]}, (("one", "two"),)),
        ({"prompt": "a", "reference": [["one", "two"]]}, (("one", "two"),)),
        ({"question_id": 1, "category": "x", "turns": ["a", "b"], "reference": ["one", "two"]},
         (("one",), ("two",))),
        ({"question_id": 1, "category": "x", "turns": ["a", "b"], "reference": ["one", ""]},
         (("one",), ())),
        ({"prompt": "a", "reference": [""]}, ()),
        ({"prompt": "a", "reference": 3}, ()),
        ({"prompt": "a"}, ()),
    ],
)  # fmt: skip
def test_a_row_has_its_references_by_turn(
    tmp_path: Path, row: Mapping[str, Any], references: tuple[tuple[str, ...], ...]
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    assert jsonl(str(path))[0].references == references


def test_a_row_of_humaneval_has_its_test(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = {"task_id": "HumanEval/0", "prompt": TASK.prompt, "test": TASK.test}
    lines = [{**row, "entry_point": "area"}, {**row, "task_id": "HumanEval/1"}]
    path.write_text("\n".join(map(json.dumps, lines)))
    whole, without = jsonl(str(path))
    assert whole.code == TASK and without.code is None


@pytest.mark.parametrize("score", [Rouge2, Pass1])
def test_scores_keep_the_contract(score: Callable[[], Score]) -> None:
    outcomes = list(run_checks(score))
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


def test_a_difference_has_a_sign_in_the_table() -> None:
    assert cell(Interval(0.1, -0.02, 0.22), "rouge2_difference") == (
        "+0.100\n[dim]-0.020 +0.220[/]"
    )
    assert cell(Interval(0.0, None, None), "pass1_difference") == "+0.000"
