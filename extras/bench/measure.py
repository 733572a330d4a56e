"""The entrants write each prompt in turn; their speeds and texts are compared."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, final

from outrider.contract.context import Tokens
from outrider.extras.bench.entrants import OUTRIDER_PLAIN
from outrider.extras.bench.worker import Worker
from outrider.lab.statistics.intervals import Interval, quotient, ratio

TIE = 1e-3
"""Logits closer than this are a tie in float32: which is larger depends on the order of sums."""


@final
@dataclass(frozen=True, slots=True)
class Run:
    """One text by one entrant.

    prompt: the prompt's number. phases: seconds of each phase, empty for an entrant that does not
    report them. calls: calls of the target, likewise None. drafts, rounds: seconds of the draft of
    each round, and of all of the round; likewise empty.
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

    def plain(self) -> dict[str, Any]:
        """Returns the run as plain values, for JSON."""
        return asdict(self)


def measure_runs(
    workers: Mapping[str, Worker],
    prompts: Sequence[Sequence[int]],
    repeats: int,
    max_new_tokens: int,
) -> Iterator[Run]:
    """Yields a run of each prompt by each worker, `repeats` times; the workers take turns at
    going first.

    Each worker first writes a few tokens that do not count.
    """
    for worker in workers.values():
        worker.ask({"ask": "write", "ids": list(prompts[0]), "max_new_tokens": 8})
    names = list(workers)
    for repeat in range(repeats):
        for number, ids in enumerate(prompts):
            first = (repeat + number) % len(names)
            for name in names[first:] + names[:first]:
                question = {"ask": "write", "ids": list(ids), "max_new_tokens": max_new_tokens}
                answer = workers[name].ask(question)
                yield Run(
                    repeat,
                    number,
                    name,
                    answer["tokens"],
                    answer["seconds"],
                    answer.get("phases", {}),
                    answer.get("calls"),
                    answer.get("drafts", []),
                    answer.get("rounds", []),
                )


def speed(runs: Sequence[Run], name: str) -> float:
    """Returns an entrant's tokens per second: all tokens over the sum of median seconds."""
    tokens, seconds = _by_prompt(runs, name)
    return sum(tokens) / sum(seconds)


def speed_ratio(runs: Sequence[Run], name: str, rival: str) -> Interval | None:
    """Returns how many times as fast one entrant is as another, with its interval over prompts."""
    (own_tokens, own_seconds), (tokens, seconds) = _by_prompt(runs, name), _by_prompt(runs, rival)
    return quotient(ratio(own_tokens, own_seconds), ratio(tokens, seconds))


def _by_prompt(runs: Sequence[Run], name: str) -> tuple[list[float], list[float]]:
    """Returns the tokens, and the median seconds over repeats, of each prompt."""
    prompts = sorted({run.prompt for run in runs})
    repeats = [
        [run for run in runs if run.entrant == name and run.prompt == prompt] for prompt in prompts
    ]
    return (
        [float(len(runs_of_prompt[0].tokens)) for runs_of_prompt in repeats],
        [statistics.median(run.seconds for run in runs_of_prompt) for runs_of_prompt in repeats],
    )


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """A text that differs from the one that Outrider writes without drafts.

    position: of the first token that differs.
    gap: between the logits of the two tokens there, by Outrider's pass; None if one text merely
        ends before the other.
    """

    prompt: int
    entrant: str
    position: int
    gap: float | None

    @property
    def is_tie(self) -> bool:
        """Returns whether the two tokens are equally likely, up to rounding."""
        return self.gap is not None and self.gap < TIE

    def plain(self) -> dict[str, Any]:
        """Returns the difference as plain values, for JSON."""
        return {
            "prompt": self.prompt,
            "entrant": self.entrant,
            "place": self.position,
            "gap": self.gap,
        }


def differences(
    runs: Sequence[Run], prompts: Sequence[Sequence[int]], judge: Worker
) -> list[Difference]:
    """Returns where texts differ from those that Outrider writes without drafts.

    judge: answers how far the logits of two tokens are apart.
    """
    expected_texts = {
        run.prompt: run.tokens for run in runs if run.entrant == OUTRIDER_PLAIN and run.repeat == 0
    }
    results: dict[tuple[int, str, int], Difference] = {}
    for run in runs:
        expected = expected_texts[run.prompt]
        if run.tokens == expected:
            continue
        position = Tokens(run.tokens).shared(Tokens(expected))
        key = (run.prompt, run.entrant, position)
        if key in results:
            continue
        gap: float | None = None
        if position < min(len(run.tokens), len(expected)):
            question = {
                "ask": "gap",
                "ids": [*prompts[run.prompt], *expected[:position]],
                "one": run.tokens[position],
                "other": expected[position],
            }
            gap = float(judge.ask(question)["gap"])
        results[key] = Difference(*key, gap)
    return list(results.values())
