"""Whether drafts change the score of a task: prompts to both engines, and a sequential test."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
from scipy.special import betaln

from outrider.base.errors import ConfigError, nearest, require
from outrider.contract.sampling import Sampling
from outrider.data.jsonl import json_lines
from outrider.data.records import form_of, turns_of
from outrider.extras.audit.client import Client, Request
from outrider.extras.audit.evidence import LEFT
from outrider.extras.audit.promises import Greedy
from outrider.extras.audit.scores import SCORES, score

FOLDER = Path(__file__).parent / "tasks"
TOGETHER = 8
"""How many prompts are in the engine at a time."""

Item = tuple[Request, Callable[[str], float]]
"""A prompt of a task: what is asked, and what gives an answer its score, from 0 to 1."""


@final
@dataclass(frozen=True, slots=True)
class TaskResult:
    """What drafts have done to a task's score.

    verdict: "changed", or "kept" if no change was found.
    requests: prompts that both engines have answered. scores: the sums of each, the one with drafts
        first. better, worse: how many have a higher or lower score with drafts.
    growth: the logarithm of the evidence for a change.
    least: the smallest change of the score that nine audits of ten would have found; None if none.
    ties: greedy texts that differ at a tie, which count as the same.
    texts: greedy texts that differ by more.
    """

    verdict: str
    requests: int
    scores: Sequence[float]
    better: int
    worse: int
    growth: float
    least: float | None
    ties: int
    texts: int

    @property
    def line(self) -> str:
        """Returns the verdict in one line."""
        mine, theirs = (100 * score / max(self.requests, 1) for score in self.scores)
        score = f"{mine:.1f}% with drafts, {theirs:.1f}% without, {self.requests} pairs"
        pairs = f"{self.better} better, {self.worse} worse"
        if self.verdict == "changed":
            return f"changed: {score} ({pairs}): evidence e^{self.growth:.1f}"
        size = "none of any size" if self.least is None else f"one of {self.least:.0%}"
        return f"kept: {score} ({pairs}); of changes, {size} would have been found"


def items_of(task: str, max_tokens: int, sampling: Sampling) -> list[Item]:
    """Returns the prompts of a task: one that comes with the package, or a file of JSON lines.

    A record has a prompt in any form of data sets, and one of the keys of `SCORES`. `body` is sent
    with the request as it is, such as `tools`; `max_tokens` is the length of its answer.

    Raises `ConfigError` if there is no such task, or a record does not say what is right.
    """
    names = sorted(file.stem for file in FOLDER.glob("*.jsonl"))
    path = FOLDER / f"{task}.jsonl" if task in names else Path(task).expanduser()
    if not path.is_file():
        raise ConfigError(f"task={task!r}: {nearest(task, names)}, or a file of JSON lines")
    items: list[Item] = []
    for where, record in json_lines(str(path)):
        if isinstance(record, ConfigError):
            raise record
        text = turns_of(record, form_of(record, where, None), where)[0]
        key = next((name for name in SCORES if name in record), None)
        if key is None:
            raise ConfigError(f"{where}: expected one of {', '.join(SCORES)}")
        body, length = record.get("body", {}), record.get("max_tokens", max_tokens)
        request = Request((("user", text),), length, sampling, more=body)
        items.append((request, partial(score, key, record[key])))
    require(bool(items), "task", task, "at least one prompt")
    return items


def audit_task(
    client: Client,
    baseline: Client,
    items: Sequence[Item],
    limit: int,
    report: Callable[[int], None] = lambda done: None,
    *,
    level: float = 0.01,
    tie: float = 0.05,
) -> TaskResult:
    """Asks both engines in turn, until the scores are known to differ or `limit` pairs are asked.

    At temperature 0 each prompt is asked once, since it has one answer.

    level: the chance, at most, of finding a change where there is none, however often one looks.
    tie: as that of an `Auditor`.
    """
    greedy, scores = Greedy(tie, None), [0.0, 0.0]
    pairs = texts = better = worse = 0
    is_greedy = items[0][0].sampling.greedy
    limit = min(limit, len(items)) if is_greedy else limit
    while pairs < limit and evidence(better, worse) < -math.log(level):
        asked = [items[at % len(items)] for at in range(pairs, min(pairs + TOGETHER, limit))]
        requests = [request for request, _ in asked]
        answers = zip(asked, client.ask(requests), baseline.ask(requests), strict=True)
        for (_, score_of), mine, theirs in answers:
            pairs += 1
            ties = greedy.ties
            if is_greedy:
                texts += greedy.compare("greedy", mine[0], theirs[0]) is not None
            one, two = (score_of(each[0].text) for each in (mine, theirs))
            one = two if greedy.ties > ties else one
            scores = [scores[0] + one, scores[1] + two]
            better, worse = better + (one > two), worse + (one < two)
        report(pairs)
    growth = float(evidence(better, worse))
    verdict = "changed" if growth >= -math.log(level) else "kept"
    least = smallest(pairs, better + worse, level)
    return TaskResult(verdict, pairs, scores, better, worse, growth, least, greedy.ties, texts)


def evidence(better: Any, worse: Any) -> Any:
    """Returns the logarithm of the evidence that one of two outcomes is likelier than the other.

    A bet that each is drawn with a chance of which nothing is known (Beta(1/2, 1/2)) against even
    chances: a fortune that is fair where drafts change nothing, and may be looked at at any time.
    """
    count = better + worse
    return betaln(better + 0.5, worse + 0.5) - betaln(0.5, 0.5) + count * math.log(2)


def smallest(pairs: int, differing: int, level: float) -> float | None:
    """Returns the smallest change of a score that would have been found in nine audits of ten.

    differing: pairs of which one alone was right; a change adds to them, all on one side.
    """
    sizes = np.arange(1, pairs + 1)
    enough = sizes[evidence(differing / 2 + sizes, differing / 2) >= -math.log(level)]
    if not len(enough):
        return None
    most = 1 - differing / pairs
    least = (enough[0] + LEFT * math.sqrt(enough[0] + differing)) / pairs
    return float(least) if least <= most else None
