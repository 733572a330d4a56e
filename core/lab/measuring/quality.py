"""Scores of answers against what a data set says is right."""

import logging
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from functools import cache
from typing import Any

from outrider.base.errors import ConfigError
from outrider.data.prompts import CodeTest, Prompt
from outrider.lab.measuring.sandbox import passes, require_sandbox

Score = Callable[[str], float]
"""Gives an answer its score, from 0 to 1."""

FENCED = re.compile(r"```[^\n]*\n(.*?)(?:\n```|\Z)", re.DOTALL)
"""Code in Markdown, up to its end or that of the answer."""

ENDS = ("\nclass ", "\ndef ", "\n#", "\nif ", "\nprint(")
"""Where the continuation of a function ends (2107.03374)."""


def scores_of(prompt: Prompt, turn: int, names: Sequence[str]) -> dict[str, Score]:
    """Returns the scores that an answer can be given, by name; those without data are left out.

    turn: which one is answered, from 1. names: of scores, keys of `SCORES`.
    """
    scores = {name: SCORES[name](prompt, turn) for name in names}
    return {name: score for name, score in scores.items() if score is not None}


def read_quality(setting: Any, prompts: Sequence[Prompt]) -> tuple[str, ...]:
    """Returns the names of the scores in a setting: None, a name, or a list of names.

    Raises:
        ConfigError: there is no such score, no prompt has the data for it, or the system can't
            compute it.
    """
    names = [] if setting is None else [setting] if isinstance(setting, str) else list(setting)
    for name in names:
        turns = (scores_of(prompt, 1, [name]) for prompt in prompts)
        if not any(turns):
            raise ConfigError(f"quality={name!r}: expected prompts with {NEEDED[name]}")
    return tuple(names)


def rouge2(prompt: Prompt, turn: int) -> Score | None:
    """Returns ROUGE-2 (Lin 2004), the F measure of common pairs of words, after stemming.

    If there are several references, the best match counts.

    Raises:
        ConfigError: the library `rouge-score` is not installed.
    """
    references = prompt.references[turn - 1] if len(prompt.references) >= turn else ()
    if not references:
        return None
    scorer = _rouge_scorer()
    return lambda answer: float(scorer.score_multi(references, answer)["rouge2"].fmeasure)


@cache
def _rouge_scorer() -> Any:
    # absl keeps the present stderr, a notebook's for example, and would close it later.
    try:
        with redirect_stderr(sys.__stderr__):
            from rouge_score.rouge_scorer import RougeScorer
    except ModuleNotFoundError as error:
        needs = "quality=rouge2 needs rouge_score: pip install 'outrider[quality]'"
        raise ConfigError(needs) from error
    logging.getLogger("absl").setLevel(logging.WARNING)  # it logs which tokenizer it uses
    return RougeScorer(["rouge2"], use_stemmer=True)


def pass1(prompt: Prompt, turn: int) -> Score | None:
    """Returns pass@1 for one answer (2107.03374): 1 if its code passes the test, else 0."""
    task = prompt.code
    if task is None or turn > 1:
        return None
    require_sandbox()
    return lambda answer: float(passes(program(task, answer)))


def program(task: CodeTest, answer: str) -> str:
    """Returns the code to run: the function that an answer gives, and its test.

    The answer may hold the whole function, in Markdown or not, or continue the prompt.
    """
    fenced = FENCED.search(answer)
    code = fenced[1] if fenced else answer
    defines = re.compile(rf"^(?:async )?def {re.escape(task.entry_point)}\b", re.MULTILINE)
    if defines.search(code):
        before = defines.split(task.prompt)[0]  # imports, and functions to use
        code = f"{before}\n{code}"
    else:
        end = min((i for stop in ENDS if (i := code.find(stop)) >= 0), default=len(code))
        code = task.prompt + code[:end]
    return f"{code}\n\n{task.test}\n\ncheck({task.entry_point})\n"


SCORES: Mapping[str, Callable[[Prompt, int], Score | None]] = {"rouge2": rouge2, "pass1": pass1}
"""By name, the function that returns a turn's `Score`, or None if the prompt lacks the data."""

NEEDED = {"rouge2": "a reference", "pass1": "prompt, test and entry_point"}
"""By score, what a prompt must have."""
