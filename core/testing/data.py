"""Checks of data: of a source, by a callable that returns its prompts, and of a score.

A check of a score takes a callable that makes one. All raise AssertionError.
"""

from collections.abc import Callable
from math import isfinite

from outrider.data.prompts import Prompt, is_encodable
from outrider.data.score import Score

PROMPTS = (
    Prompt("texts", "summary", ("Sum up.", "Again."), (("the cat sat",), ("a dog", "the dog"))),
    Prompt("bare", "chat", ("Hello.",)),
)
"""Prompts with all that a data set may say is right, and one with nothing."""

ANSWERS = ("", "the dog sat", "```python\nprint(3)\n```")


def check_prompts_are_conversations(make: Callable[[], list[Prompt]]) -> str | None:
    """A source returns prompts with ids of their own and turns of text."""
    prompts = make()
    for prompt in prompts:
        assert isinstance(prompt, Prompt), f"it returned {prompt!r}, no Prompt"
        assert prompt.turns, f"prompt {prompt.id!r} has no turns"
        for turn in prompt.turns:
            is_text = isinstance(turn, str) and turn != "" and is_encodable(turn)
            assert is_text, f"prompt {prompt.id!r}: {turn!r} is no text in UTF-8"
    ids = [prompt.id for prompt in prompts]
    twice = {identity for identity in ids if ids.count(identity) > 1}
    assert not twice, f"several prompts are called {sorted(twice)}"
    return None if prompts else "it has no prompts"


def check_prompts_are_the_same_again(make: Callable[[], list[Prompt]]) -> None:
    """A source returns the same prompts in the same order each time: runs can be resumed."""
    assert make() == make(), "the source returned other prompts the second time"


def check_scores_are_from_0_to_1(make: Callable[[], Score]) -> str | None:
    """Every answer has a score from 0 to 1, or the prompt has none."""
    scores = _scores(make(), ANSWERS)
    for (prompt, turn, answer), score in scores.items():
        is_valid = isinstance(score, float) and isfinite(score) and 0 <= score <= 1
        assert is_valid, f"prompt {prompt}, turn {turn}: it gave {answer!r} the score {score!r}"
    return None if scores else "it has no score for the kit's prompts"


def check_an_answer_has_the_same_score_again(make: Callable[[], Score]) -> None:
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


SOURCE_CHECKS = (check_prompts_are_conversations, check_prompts_are_the_same_again)
SCORE_CHECKS = (check_scores_are_from_0_to_1, check_an_answer_has_the_same_score_again)
