"""Compare: drafters side by side over the same prompts, against plain decoding."""

import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

from outrider.decoding import decode, prepare
from outrider.drafter import Drafter
from outrider.drafters.none import NoDraft
from outrider.errors import require
from outrider.generation import Generation
from outrider.lab.overlap import Overlap, overlap, reference
from outrider.lookahead import Lookahead
from outrider.metrics import Counts
from outrider.sampling import Sampling
from outrider.target import Target
from outrider.verifier import Verifier

WARM_UP = 8
"""Tokens that are decoded before the clock starts."""


@final
@dataclass(frozen=True, slots=True)
class Measurement:
    """One drafter on one prompt. plain_rate: tokens a second of plain decoding on that prompt."""

    prompt: str
    category: str
    drafter: str
    counts: Counts
    seconds: dict[str, float]
    overlap: Overlap
    plain_rate: float

    @property
    def rate(self) -> float:
        """Returns tokens a second."""
        return self.counts.emitted / self.seconds["total"]


@final
@dataclass(frozen=True, slots=True)
class Row:
    """One drafter over all prompts; docs/measures.md says what each figure is."""

    drafter: str
    alpha: float | None
    coverage: float | None
    alpha_tested: float | None
    acceptance_rate: float | None
    block_efficiency: float | None
    tokens_per_second: float
    speedup: float
    counts: dict[str, int]
    seconds: dict[str, float]
    lossless: bool


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """How every text is decoded; see `outrider.decode`."""

    gamma: int = 5
    budget: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    lookahead: Lookahead | None = None
    max_new_tokens: int = 128


@final
@dataclass(frozen=True, slots=True)
class Question:
    """A prompt ready for decoding."""

    id: str
    category: str
    tokens: list[int]


def measure(
    target: Target,
    drafters: Mapping[str, Drafter],
    verifier: Verifier,
    questions: Sequence[Question],
    settings: Settings,
) -> Iterator[Measurement]:
    """Yields a measurement for each prompt and drafter as it is done.

    Each prompt is decoded plainly first; its text is what alpha is taken on, its speed what the
    others are compared with.

    Raises:
        ConfigError: nothing to compare, or a drafter that does not fit, before any model runs.
    """
    require(len(drafters) > 0, "drafters", list(drafters), "at least one")
    require(len(questions) > 0, "data", list(questions), "at least one prompt")
    for drafter in drafters.values():
        prepare(target, drafter, verifier)
    needs = frozenset[str]().union(*(drafter.needs for drafter in drafters.values()))
    _decoded(target, NoDraft(), verifier, questions[0], settings, WARM_UP)
    for question in questions:
        plain = _decoded(target, NoDraft(), verifier, question, settings)
        text = reference(target, question.tokens, plain.tokens, needs)
        for name, drafter in drafters.items():
            run = plain
            if not isinstance(drafter, NoDraft):
                run = _decoded(target, drafter, verifier, question, settings)
            yield Measurement(
                question.id,
                question.category,
                name,
                run.counts,
                run.seconds,
                overlap(text, drafter, settings.sampling),
                plain.counts.emitted / plain.seconds["total"],
            )


def compare(
    target: Target,
    drafters: Mapping[str, Drafter],
    verifier: Verifier,
    questions: Sequence[Question],
    settings: Settings,
    folder: Path,
    *,
    facts: Mapping[str, Any] | None = None,
    on_measurement: Callable[[Measurement], None] | None = None,
) -> list[Row]:
    """Returns a row for each drafter, over the prompts that all of them finished.

    Writes `measurements.jsonl`, a line as soon as each is done, and `comparison.json`, also
    when the run breaks off.

    facts: what `comparison.json` should say of the run under "settings".
    """
    done: list[Measurement] = []
    finished = False
    try:
        with (folder / "measurements.jsonl").open("w") as file:
            for measurement in measure(target, drafters, verifier, questions, settings):
                done.append(measurement)
                file.write(json.dumps(asdict(measurement)) + "\n")
                file.flush()
                if on_measurement is not None:
                    on_measurement(measurement)
        finished = True
    finally:
        rows = summarise(done, list(drafters), verifier.lossless)
        report = {
            "rows": [asdict(row) for row in rows],
            "prompts": _finished_prompts(done, len(drafters)),
            "settings": dict(facts or {}),
            "lossless": verifier.lossless,
            "finished": finished,
        }
        (folder / "comparison.json").write_text(json.dumps(report, indent=1))
    return rows


def summarise(done: Sequence[Measurement], names: Sequence[str], lossless: bool) -> list[Row]:
    """Returns a row for each name, over the prompts that all of them finished."""
    prompts = set(_finished_prompts(done, len(names)))
    rows = []
    for name in names:
        mine = [each for each in done if each.drafter == name and each.prompt in prompts]
        if not mine:
            continue
        counts = sum((each.counts for each in mine), Counts())
        shared = sum((each.overlap for each in mine), Overlap())
        seconds = {phase: sum(each.seconds[phase] for each in mine) for phase in mine[0].seconds}
        rows.append(
            Row(
                drafter=name,
                alpha=shared.alpha,
                coverage=shared.coverage,
                alpha_tested=counts.alpha_tested,
                acceptance_rate=counts.acceptance_rate,
                block_efficiency=counts.block_efficiency,
                tokens_per_second=counts.emitted / seconds["total"],
                speedup=statistics.median(each.rate / each.plain_rate for each in mine),
                counts=asdict(counts),
                seconds=seconds,
                lossless=lossless,
            )
        )
    return rows


def _finished_prompts(done: Sequence[Measurement], drafters: int) -> list[str]:
    seen: dict[str, int] = {}
    for each in done:
        seen[each.prompt] = seen.get(each.prompt, 0) + 1
    return [prompt for prompt, count in seen.items() if count == drafters]


def _decoded(
    target: Target,
    drafter: Drafter,
    verifier: Verifier,
    question: Question,
    settings: Settings,
    tokens: int | None = None,
) -> Generation:
    rounds = decode(
        target,
        drafter,
        verifier,
        question.tokens,
        gamma=settings.gamma,
        budget=settings.budget,
        sampling=settings.sampling,
        lookahead=settings.lookahead,
        max_new_tokens=settings.max_new_tokens if tokens is None else tokens,
    )
    generation = Generation()
    for round in rounds:
        generation.add(round)
    return generation
