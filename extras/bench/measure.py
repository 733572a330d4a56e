"""The entrants write each prompt in turn; their speeds and texts are compared."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, final

from outrider.extras.bench.entrants import OUTRIDER_PLAIN
from outrider.extras.bench.worker import Worker
from outrider.lab.measuring.text_differences import Difference, find_difference
from outrider.lab.statistics.intervals import Interval, quotient, ratio


@final
@dataclass(frozen=True, slots=True)
class Run:
    """One text by one entrant.

    prompt: the prompt's number. phases: seconds of each phase, empty for an entrant that does not
    report them. calls: calls of the target, likewise None. drafts, rounds: seconds of the draft of
    each round, and of all of the round; likewise empty. decoding: the tokens written after the
    prompt had been read, and their seconds; likewise None. chosen: what the entrant chose among
    settings of its own.
    """

    repeat: int
    prompt: int
    entrant: str
    tokens: list[int]
    seconds: float
    phases: dict[str, float] = field(default_factory=dict)
    calls: int | None = None
    drafts: list[float] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)
    decoding: tuple[int, float] | None = None
    chosen: dict[str, float] = field(default_factory=dict)


TRIED = 3
"""The prompts by which a worker chooses among settings of its own."""


def measure_runs(
    workers: Mapping[str, Worker],
    prompts: Sequence[Sequence[int]],
    repeats: int,
    max_new_tokens: int,
) -> Iterator[Run]:
    """Yields a run of each prompt by each worker, `repeats` times; the workers take turns at
    going first.

    Each worker first writes a few tokens that do not count; some choose their settings then.
    """
    trial = {"prompts": [*map(list, prompts[:TRIED])], "max_new_tokens": max_new_tokens}
    for worker in workers.values():
        worker.ask({"ask": "write", "ids": list(prompts[0]), "max_new_tokens": 8, "trial": trial})
    names = list(workers)
    for repeat in range(repeats):
        for number, ids in enumerate(prompts):
            first = (repeat + number) % len(names)
            for name in names[first:] + names[:first]:
                question = {"ask": "write", "ids": list(ids), "max_new_tokens": max_new_tokens}
                answer = workers[name].ask(question)
                told = {it.name: answer[it.name] for it in fields(Run) if it.name in answer}
                yield Run(repeat, number, name, **told)


def speed(runs: Sequence[Run], name: str, *, alone: bool = False) -> float | None:
    """Returns an entrant's tokens per second: all tokens over the sum of median seconds.

    alone: counts decoding alone, without the reading of prompts; None if it does not report that.
    """
    tokens, seconds = _by_prompt(runs, name, alone=alone)
    return sum(tokens) / sum(seconds) if tokens else None


def speed_ratio(
    runs: Sequence[Run], name: str, rival: str, *, alone: bool = False
) -> Interval | None:
    """Returns how many times as fast one entrant is as another, with its interval over prompts."""
    own, others = _by_prompt(runs, name, alone=alone), _by_prompt(runs, rival, alone=alone)
    return quotient(ratio(*own), ratio(*others)) if own[0] and others[0] else None


def _by_prompt(runs: Sequence[Run], name: str, *, alone: bool) -> tuple[list[float], list[float]]:
    """Returns the tokens and the seconds of each prompt, which are medians over repeats."""
    repeats: dict[int, list[tuple[int, float]]] = {}
    for run in runs:
        written = run.decoding if alone else (len(run.tokens), run.seconds)
        if run.entrant == name and written:
            repeats.setdefault(run.prompt, []).append(written)
    counts = [statistics.median(count for count, _ in pairs) for pairs in repeats.values()]
    seconds = [statistics.median(spent for _, spent in pairs) for pairs in repeats.values()]
    return counts, seconds


def differences(
    runs: Sequence[Run], prompts: Sequence[Sequence[int]], judge: Worker
) -> list[tuple[str, Difference]]:
    """Returns where entrants' texts differ from those that Outrider writes without drafts.

    judge: answers how far the logits of two tokens are apart.
    """
    expected_texts = {
        run.prompt: run.tokens for run in runs if run.entrant == OUTRIDER_PLAIN and run.repeat == 0
    }

    def gap(number: int, start: Sequence[int], one: int, other: int) -> float:
        question = {"ask": "gap", "ids": [*prompts[number], *start], "one": one, "other": other}
        return float(judge.ask(question)["gap"])

    found = []
    texts = dict.fromkeys((run.entrant, run.prompt, tuple(run.tokens)) for run in runs)
    for entrant, number, text in texts:
        difference = find_difference(number, text, expected_texts[number], partial(gap, number))
        if difference is not None:
            found.append((entrant, difference))
    return found


Curve = tuple[list[int], list[float]]
"""The x values and the y values."""


def speeds_by_batch(
    workers: Mapping[str, Worker],
    prompts: Sequence[list[int]],
    settings: Mapping[str, Any],
    on_step: Callable[[], None],
) -> dict[str, Curve]:
    """Returns tokens per second, by the texts written at once.

    "batches": after the prompts have been read. "batches with prompts": with the reading; also of
    the entrants that write several texts at once, in turn.

    workers: Outrider without drafts as "", and those to write several texts at once by name.
    settings: `batches` and `max_new_tokens` of the bench's config.
    on_step: is called once for each number of `batches`.
    """
    batches, speeds = list(settings["batches"]), dict[str, list[float]]()
    for batch in batches:
        # More than are in progress at once, so that texts come and go.
        count = max(len(prompts), batch + batch // 2)
        texts = [prompts[number % len(prompts)] for number in range(count)]
        question = {"prompts": texts, "batch": batch, "max_new_tokens": settings["max_new_tokens"]}
        for name, worker in workers.items():
            answer = worker.ask({"ask": "texts", **question})
            if not name:
                speeds.setdefault("batches", []).append(answer["decoding"])
            suffix = f", {name}" if name else ""
            speeds.setdefault(f"batches with prompts{suffix}", []).append(answer["whole"])
        on_step()
    return {name: (list(batches), values) for name, values in speeds.items()}
