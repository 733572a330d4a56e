"""Checks of a score: each takes a callable that makes one, and raises AssertionError."""

from collections.abc import Callable
from math import isfinite

from outrider.data.prompts import Prompt
from outrider.data.score import Score

Make = Callable[[], Score]

PROMPTS = (
    Prompt("texts", "summary", ("Sum up.", "Again."), (("the cat sat",), ("a dog", "the dog"))),
    Prompt("bare", "chat", ("Hello.",)),
)
"""Prompts with all that a data set may say is right, and one with nothing."""

ANSWERS = ("", "the dog sat", "```python\nprint(3)\n```")


def check_scores_are_from_0_to_1(make: Make) -> str | None:
    """Every answer has a score from 0 to 1, or the prompt has none."""
    scores = _scores(make(), ANSWERS)
    for (prompt, turn, answer), score in scores.items():
        is_valid = isinstance(score, float) and isfinite(score) and 0 <= score <= 1
        assert is_valid, f"prompt {prompt}, turn {turn}: it gave {answer!r} the score {score!r}"
    return None if scores else "it has no score for the kit's prompts"


def check_an_answer_has_the_same_score_again(make: Make) -> None:
    """The score of an answer depends on the prompt and the answer alone: runs can be resumed."""
    first, second = _scores(make(), ANSWERS), _scores(make(), ANSWERS[::-1])
    for each in first.keys() | second.keys():
        assert first.get(each) == second.get(each), (
            f"it gave {each} the score {first.get(each)}, and then {second.get(each)}"
        )


def _scores(score: Score, answers: tuple[str, ...]) -> dict[tuple[str, int, str], float]:
    """Returns the scores of answers, by prompt, turn and answer."""
    return {
        (prompt.id, turn, answer): judge(answer)
        for prompt in PROMPTS
        for turn in range(1, len(prompt.turns) + 1)
        for judge in [score.judge(prompt, turn)]
        if judge is not None
        for answer in answers
    }


CHECKS = (check_scores_are_from_0_to_1, check_an_answer_has_the_same_score_again)
