"""Asks an engine until it is known whether its texts have the target's distribution."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import final

from outrider.base.errors import require
from outrider.base.http import ServerError, Unreadable
from outrider.extras.audit import promises
from outrider.extras.audit.client import GREEDY, Asked, Choice, Client, Request, Token, batches
from outrider.extras.audit.evidence import CONTROL, Evidence, TwoSamples
from outrider.extras.audit.expected import PLAIN, Expected
from outrider.extras.audit.martingale import PLAUSIBLE, Bets
from outrider.extras.audit.result import Finding, Result

REPEATED = 2
"""How many texts have to show what a single text can."""

TOLERANCE = 0.2
"""How far listed log-probabilities may be from the expected ones."""

LISTED, ENDS = "log-probabilities", "ends"
"""What is found of those that a server lists, and of where texts end."""

CYCLES_OF_PROMISES = 8
"""In how many of the first cycles seeds and stop strings are tried, and how often later."""

AGAINST = ", against no drafts"
"""Ends the names of what a baseline shows."""


@final
@dataclass(slots=True)
class Auditor:
    """Asks an engine, and holds its texts against what is expected.

    client: the engine.
    prompts: requests whose prompt and length are taken.
    expected: the target's distribution, or None.
    baseline: the same engine without drafts, or None.
    level: the chance, at most, of suspecting an engine without a fault; that of a verdict by its
        tokens is the square.
    tie: the gap of log-probabilities, at most, that greedy texts may differ by.
    skip: kinds that are not asked for, and promises that are not judged.
    """

    client: Client
    prompts: Sequence[Request]
    expected: Expected | None = None
    baseline: Client | None = None
    level: float = 0.01
    tie: float = 0.05
    skip: Collection[str] = ()
    _sent: int = 0
    _evidence: dict[str, Evidence] = field(default_factory=dict)
    _shown: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _greedy: promises.Greedy = field(init=False)
    _needed: float = field(init=False)  # of evidence, for a suspicion
    _seeds: promises.Seeds = field(init=False)

    def __post_init__(self) -> None:
        plan = batches(self.prompts[0], self.skip)
        names = {asked.name for batch in plan for asked in batch if asked.kind != GREEDY}
        require(bool(names), "skip", self.skip, "a kind of sampled texts to be left")
        sources = (self.expected is not None) + (self.baseline is not None)
        self._needed = math.log((len(names) * sources + 2) / self.level)  # two are of seeds
        self._seeds = promises.Seeds(self._needed)
        self._greedy = promises.Greedy(self.tie, self.expected)

    def run(self, limit: int, report: Callable[[int], None] = lambda done: None) -> Result:
        """Returns the result, as soon as a fault is found or `limit` requests have been sent.

        report: is called with the number of requests sent, after each batch.

        Raises `OutriderError` if the engine can't be judged: it fails, as without drafts or where
        that is not known, it refuses a request, or does not tell enough.
        """
        cycle = 0
        plans = [batches(prompt, self.skip) for prompt in self.prompts]
        size = sum(map(len, plans[0]))
        while self._sent + size <= limit and not self._is_broken():
            for batch in plans[cycle % len(plans)]:
                answers = self._answers(batch)
                if self._is_broken():
                    break
                self._read(batch, answers)
                if self.baseline is not None:
                    others = self.baseline.ask([asked.request for asked in batch])
                    self._compare(batch, answers, others)
                report(self._sent)
            is_due = cycle < CYCLES_OF_PROMISES or cycle % CYCLES_OF_PROMISES == 0
            if is_due and not self._is_broken() and self._sent + promises.MOST <= limit:
                self._try_promises(cycle)
            cycle += 1
        return self._result()

    def _ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        self._sent += len(requests)
        return self.client.ask(requests)

    def _answers(self, batch: Sequence[Asked]) -> list[list[Choice]]:
        """Returns the engine's answers; none if it fails, and only with drafts."""
        requests, name = [asked.request for asked in batch], batch[0].name
        try:
            return self._ask(requests)
        except Unreadable:
            raise
        except ServerError as error:  # the client has tried again
            if self.baseline is None:
                hint = "a baseline would tell whether it does without drafts"
                raise ServerError(f"{name}: the engine failed, and {hint}: {error}") from error
            self.baseline.ask(requests)
            fault = f"the engine failed, and without drafts it did not: {error}"
            self._add_fault(name, fault, REPEATED)
            return []

    def _read(self, batch: Sequence[Asked], answers: Sequence[Sequence[Choice]]) -> None:
        beside: dict[str, Sequence[Token]] = {}  # in this batch, by kind
        for asked, choices in zip(batch, answers, strict=True):
            if len(choices) != asked.request.n:
                self._add_fault("n", f"{len(choices)} texts came for n={asked.request.n}")
            for choice in choices:
                eos = () if self.expected is None else self.expected.eos
                self._add_fault(ENDS, promises.end_fault(asked.request, choice, eos))
                if self.expected is not None:
                    self.expected.see(asked.request, choice, asked.alone)
                    gap = self.expected.listed_gap(asked.request, choice)
                    if gap > max(TOLERANCE, self._greedy.tie):
                        self._add_fault(LISTED, f"one is {gap:.2f} away from the target's")
                if asked.kind == GREEDY:
                    self._add_fault(asked.name, self._greedy.read(asked, choice))
                elif self.expected is not None:
                    self._bet(asked, choice, beside.get(asked.kind, ()))
                    beside.setdefault(asked.kind, choice.tokens)

    def _bet(self, asked: Asked, choice: Choice, beside: Sequence[Token]) -> None:
        """Bets on the tokens of a sampled text, where the target's distribution is known."""
        assert self.expected is not None
        written = [*self.expected.written(asked.request, choice, beside)]
        if not written:
            return
        places, tokens = zip(*written, strict=True)
        evidence = self._evidence.setdefault(asked.name, Evidence(Bets))
        evidence.see(
            tokens,
            [place.plausible for place in places],
            lambda bets, it: bets.see(asked.request.prompt, [*zip(places, it, strict=True)]),
        )

    def _compare(
        self,
        batch: Sequence[Asked],
        answers: Sequence[Sequence[Choice]],
        others: Sequence[Sequence[Choice]],
    ) -> None:
        """Holds texts against those of the engine without drafts."""
        for asked, choices, without in zip(batch, answers, others, strict=True):
            for mine, theirs in zip(choices, without, strict=False):
                missing = [place for place, top in enumerate(mine.likeliest) if not top]
                if missing and all(theirs.likeliest):
                    self._add_fault(LISTED, f"none are listed for token {missing[0]} of a text")
                if asked.kind == GREEDY:
                    self._add_fault(asked.name, self._greedy.compare(asked.name, mine, theirs))
                else:
                    self._pair(asked, mine, theirs)

    def _pair(self, asked: Asked, mine: Choice, theirs: Choice) -> None:
        """Bets on which of two sampled texts is by which engine."""
        if LISTED in self.skip:
            mine, theirs = (replace(it, likeliest=()) for it in (mine, theirs))
        least = math.log(PLAUSIBLE)
        alike = [[name for name, it in row.items() if it >= least] for row in mine.likeliest]
        evidence = self._evidence.setdefault(asked.name + AGAINST, Evidence(TwoSamples))
        evidence.see(
            mine.parts,
            alike,
            lambda pairs, it: pairs.see(asked.request.prompt, replace(mine, tokens=it), theirs),
        )

    def _try_promises(self, cycle: int) -> None:
        """Tries seeds and stop strings, as far as they are to be judged."""
        tried = {"seeds", "stop strings"} - {*self.skip}
        prompt = self.prompts[cycle % len(self.prompts)]
        request = replace(prompt, sampling=PLAIN, seed=cycle)
        text = self._ask([request])[0][0] if tried else Choice("")
        if "seeds" in tried:
            self._add_fault("seeds", self._seeds.fault(self._ask, request, text), REPEATED)
        if "stop strings" in tried:
            self._add_fault("stop strings", promises.stop_fault(self._ask, request, text))

    def _add_fault(self, name: str, fault: str | None, times: int = 1) -> None:
        """Notes what a single text shows, if it shows anything that is to be judged."""
        if fault is not None and name not in self.skip:
            self._shown[name] += [fault] * times

    @property
    def _faults(self) -> dict[str, str]:
        """Returns what enough texts have shown, by its name."""
        return {name: shown[0] for name, shown in self._shown.items() if len(shown) >= REPEATED}

    @property
    def _enough(self) -> float:
        """Returns the evidence that is needed for a verdict."""
        return self._needed - math.log(self.level)

    @property
    def _most(self) -> float:
        return float(max((it.growths[0] for it in self._evidence.values()), default=0.0))

    def _is_broken(self) -> bool:
        return bool(self._faults) or self._most >= self._enough

    def _result(self) -> Result:
        findings = [Finding(name, 1, fault=fault) for name, fault in self._faults.items()]
        controls: dict[bool, float] = {}  # of each source, that of the kind which shows most
        for name, it in sorted(self._evidence.items(), key=lambda item: -item[1].growths[0]):
            least, shown = it.least(self._enough), float(it.growths[CONTROL])
            findings.append(Finding(name, it.texts, float(it.growths[0]), least))
            source = name.endswith(AGAINST)
            controls[source] = max(controls.get(source, shown), shown)
        control = min(controls.values(), default=0.0)
        suspected = self._needed <= self._most < self._enough
        verdict = "kept" if control >= self._needed and not suspected else "too few texts"
        return Result(
            "broken" if self._is_broken() else verdict,
            self.level,
            self._sent,
            control,
            tuple(findings),
            self._greedy.ties,
            suspected,
            self._greedy.unjudged,
        )
