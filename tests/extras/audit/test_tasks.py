"""A change of a task's score is found, and none where drafts change nothing."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np
import pytest

from outrider.contract.sampling import Sampling
from outrider.extras.audit.client import Choice, Client, Request
from outrider.extras.audit.scores import SCORES, score
from outrider.extras.audit.tasks import FOLDER, TaskResult, audit_task, items_of, smallest

TASKS = sorted(file.stem for file in FOLDER.glob("*.jsonl"))
WARM = Sampling(temperature=1.0)
RIGHT: dict[str, Callable[[Any], str]] = {
    "answer": lambda answer: f"It is {answer}.",
    "choice": lambda choice: f"{choice}.",
    "function": lambda name: f"```python\ndef {name}(x):\n    return x\n```",
    "call": lambda call: "No." if call is None else json.dumps(call),
    "refuses": lambda refuses: "I'm sorry, no." if refuses else "Of course.",
    "schema": lambda schema: json.dumps(example(schema)),
    "regex": lambda regex: f"<think>hm</think>\n{EXAMPLES[regex]}",
}
"""A text that is right, by what the record says."""
EXAMPLES = {
    "(yes|no)": "yes", "[0-9]{1,3}": "7", "[0-9]{1,5}": "144", "(summer|winter)": "summer",
    "(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day": "Monday", "#[0-9a-fA-F]{6}": "#ff0000",
    "[0-9]{4}-[0-9]{2}-[0-9]{2}": "2026-01-01",
}  # fmt: skip

CALL = {"name": "f", "arguments": {"a": 1}}


def example(schema: Any) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {name: example(each) for name, each in schema["properties"].items()}
    if schema["type"] == "array":
        return [example(schema["items"])] * schema.get("minItems", 1)
    return {"string": "a", "integer": 1, "number": 0.5, "boolean": True}[schema["type"]]


def cut(text: str) -> str:
    return text[: len(text) // 2]


def unchecked(text: str) -> str:
    return f"{text} That is all."


@final
class Pupil(Client):
    """Has a right answer, with a chance; greedy verification of sampled requests has it always."""

    def __init__(self, task: str, chance: float, seed: int, change: Callable[[str], str] = str):
        self.right = dict(right_texts(task))
        self.chance, self.draws, self.change = chance, np.random.default_rng(seed), change

    def ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        return [[Choice(self.written(str(self.right[it.prompt])))] for it in requests]

    def written(self, right: str) -> str:
        return self.change(right) if self.draws.random() < self.chance else "I do not know: 0"


def items(task: str, sampling: Sampling = WARM) -> list[Any]:
    return items_of(task, 64, sampling)


def right_texts(task: str) -> Iterator[tuple[Any, str]]:
    """Yields each prompt with a text that is right."""
    records = map(json.loads, (FOLDER / f"{task}.jsonl").read_text().splitlines())
    for (request, _), record in zip(items(task), records, strict=True):
        key = next(it for it in SCORES if it in record)
        yield request.prompt, RIGHT[key](record[key])


def audited(task: str, seed: int, pairs: int, usual: float = 0.7, **changed: Any) -> TaskResult:
    mine = Pupil(task, **{"chance": usual, "seed": 2 * seed, **changed})
    return audit_task(mine, Pupil(task, usual, 2 * seed + 1), items(task), pairs)


@pytest.mark.parametrize("task", TASKS)
def test_a_right_answer_is_right_and_another_is_not(task: str) -> None:
    for (_, score_of), (_, text) in zip(items(task), right_texts(task), strict=True):
        assert score_of(text) == 1, text
        wrong = "I can't." if text == "Of course." else "I do not know: 0.01"
        assert not score_of(wrong) or text == "No."


@pytest.mark.parametrize(
    ("key", "right", "text", "expected"),
    [
        ("answer", "so 2 + 5 = 7\n#### 7", "<think>9</think> It is 7.0", True),
        ("answer", "Paris", " paris. ", True),
        ("choice", "B", "The answer is (B), not A", True),
        ("call", CALL, json.dumps(CALL | {"arguments": '{"a": 1}'}), True),
        ("call", CALL, json.dumps(CALL | {"arguments": '{"a"'}), False),
        ("call", None, '{"name": "f", "arguments": {}}', False),
        ("function", "f", "def g(): pass", False),
        ("regex", "(yes|no)", "<think>no</think>maybe", False),
        ("schema", {"type": "object", "required": ["a"]}, "{}", False),
    ],
)  # fmt: skip
def test_answers_are_scored_by_their_own_kind(
    key: str, right: Any, text: str, expected: bool
) -> None:
    assert score(key, right, text) == expected


@pytest.mark.parametrize(
    ("task", "changed"),
    [
        ("math", {"chance": 1.0}),  # sampled requests verified greedily
        ("grammar", {"change": unchecked}),  # a grammar that is skipped after the thoughts
        ("tools", {"change": cut}),
    ],
)
def test_a_change_of_the_score_is_found(task: str, changed: dict[str, Any]) -> None:
    for seed in range(5):
        result = audited(task, seed, 400, **changed)
        assert result.verdict == "changed" and result.requests < 400, result.line


def test_clean_audits_of_tasks_find_no_change() -> None:
    results = [audited(TASKS[seed % len(TASKS)], seed, 120) for seed in range(100)]
    assert [result.verdict for result in results] == ["kept"] * 100
    assert all(result.least is not None and result.least < 0.5 for result in results)


def test_a_change_of_the_size_that_is_told_is_found_in_nine_of_ten() -> None:
    least = smallest(300, 96, 0.01)
    assert least is not None
    seen = [audited("math", seed, 300, 0.8, chance=0.8 - least) for seed in range(60)]
    assert sum(result.verdict == "changed" for result in seen) >= 45


@pytest.mark.parametrize(("gap", "better"), [(0.01, 0), (3.0, 1)])
def test_a_greedy_text_that_differs_at_a_tie_is_the_same(gap: float, better: int) -> None:
    class One(Client):
        def __init__(self, token: str) -> None:
            self.token = token

        def ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
            listed = {"B": -1.0 - gap, "A": -1.0}
            return [[Choice(self.token, (self.token,), (-1.0,), (listed,))] for _ in requests]

    some = [it for it in items("choice", Sampling()) if it[1]("B")][:1]
    result = audit_task(One("B"), One("A"), some, 9)
    found = (result.requests, result.better, result.texts, result.ties)
    assert found == (1, better, better, 1 - better)
