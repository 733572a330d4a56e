"""The card and the figures of a drafter that is made in one step, such as a table."""

import time
from collections.abc import Mapping
from typing import Any

from outrider.base.terminal import plain
from outrider.contract.drafter import Drafter
from outrider.extras.training.card import write_card
from outrider.extras.training.contamination import write_fingerprints
from outrider.extras.training.corpus import Split
from outrider.extras.training.drafters import measure_drafter
from outrider.extras.training.recipe import Job


def write_fitted(
    job: Job, drafter: Drafter, split: Split, *, family: str, began: float, facts: Mapping[str, Any]
) -> None:
    """Measures a drafter on the held-out texts, writes its card, and prints how well it does.

    drafter: reads what has been made in the job's folder.
    began: when the job began, by `time.monotonic`.
    facts: further facts for the card.
    """
    figures = measure_drafter(job.target, drafter, split.held_out, job.gamma)
    card_facts = {
        "family": family,
        "command": job.command,
        **job.origin,
        **split.facts(),
        "steps": 1,
        "seconds": round(time.monotonic() - began),
        **facts,
    }
    write_fingerprints(job.out, job.target, split.learned)
    job.log(figures, 1)
    write_card(job.out, card_facts, [{"step": 1.0, **figures}])
    line = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
    job.console.print(f"{card_facts['tokens']} tokens; on held-out texts {line}", highlight=False)
    job.console.print(plain(job.out), soft_wrap=True)
