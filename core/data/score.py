"""The role of a score: it judges answers by what a data set says is right."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from outrider.data.prompts import Prompt

Judge = Callable[[str], float]
"""Gives an answer its score, from 0 to 1."""


class Score(ABC):
    """Judges answers; a comparison shows the mean beside that of the texts of plain decoding.

    checks: where the kit finds the checks of its kind.
    needs: what a prompt must have to be scored, in words.
    """

    checks = "outrider.testing.data:SCORE_CHECKS"
    needs = "data to score by"

    @abstractmethod
    def judge(self, prompt: Prompt, turn: int) -> Judge | None:
        """Returns what judges the answers to a turn, from 1; None if the prompt lacks the data."""

    def note(self) -> str:
        """Returns what users have to know before it judges; empty if there is nothing."""
        return ""


def judges_of(prompt: Prompt, turn: int, scores: Mapping[str, Score]) -> dict[str, Judge]:
    """Returns what judges the answers to a turn, by name; scores without data are left out."""
    judges = {name: score.judge(prompt, turn) for name, score in scores.items()}
    return {name: judge for name, judge in judges.items() if judge is not None}
