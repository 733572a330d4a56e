"""Measure: the entrants' rounds, prompt by prompt and in turn, and whether their texts agree."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from outrider.bench.entrants import PLAIN
from outrider.bench.worker import Worker
from outrider.lab.intervals import Bootstrap, Interval

TIE = 1e-3
"""Logits closer than this are a tie of float32: the order of sums decides."""


@final
@dataclass(frozen=True, slots=True)
class Run:
    """One text by one entrant. phases: seconds of each, where the entrant says them."""

    repeat: int
    prompt: int
    entrant: str
    tokens: list[int]
    seconds: float
    phases: dict[str, float] = field(default_factory=dict)
    calls: int | None = None


def measured(
    workers: Mapping[str, Worker],
    prompts: Sequence[Sequence[int]],
    repeats: int,
    max_new_tokens: int,
) -> Iterator[Run]:
    """Yields the runs of all prompts by all workers, whoever begins taking turns.

    Each worker writes a little first, which is not counted.
    """
    for worker in workers.values():
        worker.ask({"ask": "write", "ids": list(prompts[0]), "max_new_tokens": 8})
    names = list(workers)
    for repeat in range(repeats):
        for number, ids in enumerate(prompts):
            first = (repeat + number) % len(names)
            for name in names[first:] + names[:first]:
                asked = {"ask": "write", "ids": list(ids), "max_new_tokens": max_new_tokens}
                said = workers[name].ask(asked)
                yield Run(
                    repeat,
                    number,
                    name,
                    said["tokens"],
                    said["seconds"],
                    said.get("phases", {}),
                    said.get("calls"),
                )


def speed(runs: Sequence[Run], name: str) -> float:
    """Returns an entrant's tokens a second: each prompt's median seconds, and tokens over seconds."""
    tokens, seconds = _by_prompt(runs, name)
    return sum(tokens) / sum(seconds)


def ratio(runs: Sequence[Run], name: str, other: str) -> Interval | None:
    """Returns how many times as fast one entrant is as another, over prompts."""
    import numpy as np

    (own_tokens, own), (tokens, seconds) = _by_prompt(runs, name), _by_prompt(runs, other)
    table = np.array([own_tokens, own, tokens, seconds])

    def statistic(rows: Any) -> Any:
        a, b, c, d = (line[rows].sum(-1) for line in table)
        return (a / b) / (c / d)

    return Bootstrap(len(own)).interval(statistic)


def _by_prompt(runs: Sequence[Run], name: str) -> tuple[list[float], list[float]]:
    """Returns tokens and median seconds of each prompt."""
    import statistics

    prompts = sorted({run.prompt for run in runs})
    mine = [[run for run in runs if run.entrant == name and run.prompt == each] for each in prompts]
    return (
        [float(len(each[0].tokens)) for each in mine],
        [statistics.median(run.seconds for run in each) for each in mine],
    )


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """A text that is not the first entrant's.

    place: the first token that differs. gap: between the logits of both there, by Outrider's pass;
    none where one text is the other's beginning.
    """

    prompt: int
    entrant: str
    place: int
    gap: float | None


def parting(one: Sequence[int], other: Sequence[int]) -> int:
    """Returns the first place at which two texts differ, or the end of the shorter."""
    both = zip(one, other, strict=False)
    short = min(len(one), len(other))
    return next((at for at, (this, that) in enumerate(both) if this != that), short)


def differences(
    runs: Sequence[Run], prompts: Sequence[Sequence[int]], judge: Worker
) -> list[Difference]:
    """Returns where texts differ from those of Outrider without drafts."""
    right = {run.prompt: run.tokens for run in runs if run.entrant == PLAIN and run.repeat == 0}
    found: dict[tuple[int, str, int], Difference] = {}
    for run in runs:
        expected = right[run.prompt]
        if run.tokens == expected:
            continue
        place, short = parting(run.tokens, expected), min(len(run.tokens), len(expected))
        key = (run.prompt, run.entrant, place)
        if key in found:
            continue
        gap: float | None = None
        if place < short:
            asked = {
                "ask": "gap",
                "ids": [*prompts[run.prompt], *expected[:place]],
                "one": run.tokens[place],
                "other": expected[place],
            }
            gap = float(judge.ask(asked)["gap"])
        found[key] = Difference(*key, gap)
    return list(found.values())
