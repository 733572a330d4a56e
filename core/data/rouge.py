"""ROUGE-2: how many pairs of words an answer shares with a reference."""

import logging
import sys
from contextlib import redirect_stderr
from typing import final

from outrider.data.prompts import Prompt
from outrider.data.score import Judge, Score


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
