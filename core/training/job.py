"""A job: what a recipe is given to train with, whatever it trains."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from rich.console import Console

from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.prompts import Prompt


@final
@dataclass(frozen=True, slots=True)
class Job:
    """What `outrider train` hands to a recipe.

    openings, question_tokens: of the questions that the target writes, where there are no prompts.
    command: what to type to have the same again, wherever it is written to.
    folder: of the run, for what the recipe keeps on the way.
    out: the file or folder to write, without a suffix; the recipe adds its own.
    """

    target: Target
    drafter: Callable[[], Drafter]
    verifier: Verifier
    sampling: Sampling
    prompts: Sequence[Prompt]
    chat: bool
    openings: Sequence[str]
    question_tokens: int
    gamma: int
    max_new_tokens: int
    command: str
    folder: Path
    out: Path
    console: Console


Recipe = Callable[[Job], None]
"""Trains, writes what it trained, and says how well it does."""
