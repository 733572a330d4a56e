"""Scores, which judge answers by what a data set says is right: the role, and ROUGE-2."""

import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from typing import final

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


@final
class Rouge2(Score):
    """ROUGE-2 (Lin 2004), the F measure of common pairs of words, after stemming.

    If there are several references, the best match counts.
    """

    needs = "a reference"

    def __init__(self) -> None:
        # absl keeps the present stderr, a notebook's for example, and would close it later.
        with redirect_stderr(sys.__stderr__):
            from rouge_score.rouge_scorer import RougeScorer
        logging.getLogger("absl").setLevel(logging.WARNING)  # it logs which tokenizer it uses
        self._scorer = RougeScorer(["rouge2"], use_stemmer=True)

    def judge(self, prompt: Prompt, turn: int) -> Judge | None:
        references = prompt.references[turn - 1] if len(prompt.references) >= turn else ()
        if not references:
            return None
        return lambda answer: float(self._scorer.score_multi(references, answer)["rouge2"].fmeasure)


def judges_of(prompt: Prompt, turn: int, scores: Mapping[str, Score]) -> dict[str, Judge]:
    """Returns what judges the answers to a turn, by name; scores without data are left out."""
    judges = {name: score.judge(prompt, turn) for name, score in scores.items()}
    return {name: judge for name, judge in judges.items() if judge is not None}
