"""The recipe of the networks: the target writes texts, reads them, and a drafter learns from that."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.drafter_parts.vocabulary import frequent
from outrider.lab.overlap import overlap, reference
from outrider.plugins.registry import make
from outrider.training import contamination
from outrider.training.card import card, learned_from
from outrider.training.corpus import Text, split
from outrider.training.families import learner
from outrider.training.job import Job
from outrider.training.loop import Figures, Schedule, run
from outrider.training.states import computed
from outrider.verifiers.token import Token

JUDGED = 6
"""Held-out texts on which alpha is taken as training goes on."""
PLACES = 48
"""Tokens of each."""


def train(
    job: Job,
    *,
    family: str,
    texts: int,
    held_out: int,
    vocabulary: int | None,
    temperatures: Sequence[float],
    batch_texts: int,
    schedule: Mapping[str, Any],
    options: Mapping[str, Any],
    file: str | None = None,
    states: str | None = None,
) -> None:
    """Trains a drafter of a family on texts of the target, and writes it with a card.

    A run that broke off goes on where it was, given its folder.

    texts: how many. held_out: more of them, on which it is judged and never trained.
    vocabulary: how many tokens the drafter knows, the most frequent ones; all of them if none.
    temperatures: of the target's answers, taken in turn.
    batch_texts: how many texts the target writes at once.
    schedule: see `outrider.training.loop.Schedule`. options: see the family's learner in
        `outrider.training.families`.
    file: where the texts are kept, to train others on them too; in the run's folder unless told.
    states: likewise the folder of the target's states.

    Raises:
        ConfigError: a setting makes no sense, or what is on disk belongs to other settings.
    """
    timing = Schedule(**{"seed": job.sampling.seed, **schedule})
    began = time.monotonic()
    own, held = split(
        job,
        texts=texts,
        held_out=held_out,
        temperatures=temperatures,
        batch_texts=batch_texts,
        file=file,
    )
    size = job.target.vocab_size
    known = frequent((text.ids[text.start :] for text in own), size, vocabulary or size)
    learned = learner(family, job.target, known, job.sampling.seed, options)
    kept = Path(states).expanduser() if states else job.folder / "states"
    examples = computed(job.target, own, learned.reads, kept / "learned", job.console)
    judged = computed(job.target, held, learned.reads, kept / "held_out", job.console)
    latest = job.folder / "latest"

    def evaluate() -> Figures:
        learned.save(latest)
        return figures(
            job.target, make("drafter", family, **{learned.option: str(latest)}), held, job.gamma
        )

    curve = run(learned, examples, judged, timing, job.folder, job.console, evaluate)
    learned.save(job.out)
    facts = {
        "family": family,
        "command": job.command,
        **learned_from(own, held),
        "steps": int(curve[-1]["step"]),
        "seconds": round(time.monotonic() - began),
        "vocabulary": len(known),
        "temperatures": list(temperatures),
        "schedule": dict(schedule),
        "options": dict(options),
    }
    contamination.write(job.out, job.target, own)
    card(job.out, facts, curve)
    job.console.print(str(job.out), soft_wrap=True)


def figures(target: Target, drafter: Drafter, held: Sequence[Text], gamma: int) -> Figures:
    """Returns alpha and the expected block efficiency along held-out answers, at temperature 1."""
    drafter.bind(target)
    sums = {"alpha": [0.0, 0.0], "block_efficiency": [0.0, 0.0]}
    for text in held[:JUDGED]:
        answer = text.ids[text.answer : text.answer + PLACES]
        if not answer:
            continue
        along = reference(target, text.ids[: text.answer], answer, drafter.needs)
        each = overlap(along, drafter, Token(), Sampling(temperature=1.0), gamma)
        sums["alpha"][0] += each.beta[0]
        sums["alpha"][1] += each.prefixes[0]
        sums["block_efficiency"][0] += each.accepted[-1] + each.rounds[-1]
        sums["block_efficiency"][1] += each.rounds[-1]
    return {name: above / below if below else 0.0 for name, (above, below) in sums.items()}
