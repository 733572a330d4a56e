"""Asks an engine until it is known whether its texts have the target's distribution."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from outrider.base.errors import require
from outrider.base.http import ServerError
from outrider.extras.audit import promises
from outrider.extras.audit.client import Choice, Client, Counted, Request
from outrider.extras.audit.expected import Expected
from outrider.extras.audit.martingale import (
    Bet,
    Observation,
    Suspicions,
    Tilted,
    TwoSamples,
    bets,
    growth,
)
from outrider.extras.audit.plan import GREEDY, Asked, Plan
from outrider.extras.audit.result import Finding, Result

TEMPER = 0.8
"""The power of the control's distribution: as at a temperature that is 1.25 times as high."""

LISTED = "log-probabilities"
"""What is found of the ones that a server lists."""

ENDS = "ends"
"""What is found of where texts end."""

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
    level: the chance, at most, of suspecting an engine without a fault, and then of confirming it.
    tie: the gap of log-probabilities, at most, that greedy texts may differ by.
    tolerance: how far listed log-probabilities may be from the expected ones.
    skip: kinds that are not asked for, and promises that are not judged.
    """

    client: Client
    prompts: Sequence[Request]
    expected: Expected | None = None
    baseline: Client | None = None
    level: float = 0.01
    tie: float = 0.05
    tolerance: float = 0.2
    skip: Collection[str] = ()
    _bets: defaultdict[str, list[Bet]] = field(default_factory=lambda: defaultdict(bets))
    _pairs: defaultdict[str, TwoSamples] = field(default_factory=lambda: defaultdict(TwoSamples))
    _control: list[Bet] = field(default_factory=lambda: [Tilted("likely")])
    _different: TwoSamples = field(default_factory=TwoSamples)
    _texts: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    _faults: dict[str, str] = field(default_factory=dict)
    _seeds: promises.Seeds = field(default_factory=promises.Seeds)
    _ties: int = 0
    _asked: str = ""
    _plan: Plan = field(init=False)
    _suspicions: Suspicions = field(init=False)

    def __post_init__(self) -> None:
        self._plan = Plan(self.prompts, self.skip)
        require(bool(self._plan.kinds), "skip", self.skip, "a kind of sampled texts to be left")
        sources = (self.expected is not None) + (self.baseline is not None)
        self._suspicions = Suspicions(self.level, len(self._plan.names) * sources)

    def run(self, limit: int, report: Callable[[int], None] = lambda done: None) -> Result:
        """Returns the result, as soon as a fault is found or `limit` requests have been sent.

        An engine that fails once it has answered is broken.

        report: is called with the number of requests sent, after each batch.

        Raises:
            OutriderError: the engine never answered, or refuses a request.
        """
        client = Counted(self.client)
        try:
            self._ask(client, limit, report)
        except ServerError as error:
            if error is not client.failure or not self._texts:
                raise
            self._faults[self._asked] = f"the engine failed: {error}"
        return self._result(client.sent)

    def _ask(self, client: Counted, limit: int, report: Callable[[int], None]) -> None:
        cycle = 0
        while client.sent + self._plan.size <= limit and not self._is_broken():
            for batch in self._plan.batches(cycle):
                asked, self._asked = [ask.request for ask in batch], batch[0].name
                answers = client.ask(asked)
                self._read(batch, answers)
                if self.baseline is not None:
                    self._compare(batch, answers, self.baseline.ask(asked))
                report(client.sent)
                self._suspicions.see(self._growths())
            is_due = cycle < CYCLES_OF_PROMISES or cycle % CYCLES_OF_PROMISES == 0
            is_due &= not {"seeds", "stop strings"} <= {*self.skip}
            if is_due and client.sent + promises.MOST <= limit:
                self._try_promises(client, cycle)
            cycle += 1

    def _read(self, batch: Sequence[Asked], answers: Sequence[Sequence[Choice]]) -> None:
        beside: dict[str, Choice] = {}  # in this batch, by kind
        for asked, choices in zip(batch, answers, strict=True):
            if len(choices) != asked.request.n:
                self._add_fault("n", f"{len(choices)} texts came for n={asked.request.n}")
            for choice in choices:
                eos: Collection[int] = ()
                if self.expected is not None:
                    self.expected.check(asked.request, choice)
                    eos = self.expected.eos
                if fault := promises.end_fault(asked.request, choice, eos):
                    self._add_fault(ENDS, fault)
                self._texts[asked.name] += 1
                if asked.kind == GREEDY:
                    self._read_greedy(asked, choice)
                else:
                    self._read_sampled(asked, choice, beside.get(asked.kind))
                    beside.setdefault(asked.kind, choice)
                self._read_logprobs(asked, choice)

    def _read_sampled(self, asked: Asked, choice: Choice, beside: Choice | None) -> None:
        rows = None if self.expected is None else self.expected.rows(asked.request, choice)
        if rows is None:
            return
        near = beside.tokens if beside is not None else ()
        text: list[Observation] = []
        control: list[Observation] = []
        for position, (probs, cells) in enumerate(rows):
            token, before = choice.tokens[position], choice.tokens[:position]
            other = near[position] if position < len(near) else None
            text.append(Observation(probs, cells, token, before, other))
            if asked.alone and asked.kind == self._plan.kinds[0]:
                warmer = np.power(probs, TEMPER)
                control.append(Observation(warmer / warmer.sum(), cells, token, before))
        for bet in self._bets[asked.name]:
            bet.see(asked.request.prompt, text)
        for bet in self._control:
            bet.see(asked.request.prompt, control)

    def _read_greedy(self, asked: Asked, choice: Choice) -> None:
        found = None if self.expected is None else self.expected.greedy(asked.request, choice)
        if found is None:
            return
        position, gap = found
        if gap <= self.tie:
            self._ties += 1
        else:
            self._add_fault(
                asked.name, f"token {position} of a greedy text is {gap:.2f} below the likeliest"
            )

    def _read_logprobs(self, asked: Asked, choice: Choice) -> None:
        # Such as tokens of a draft that was accepted.
        if missing := [place for place, top in enumerate(choice.likeliest) if not top]:
            self._add_fault(LISTED, f"none are listed for token {missing[0]} of a text")
        if self.expected is None or choice.logprobs is None:
            return
        known = self.expected.logprobs(asked.request, choice)
        if known is None:
            return
        gaps = [
            max(
                (abs(a - b) for a, b in zip(choice.logprobs, row, strict=False) if b > -math.inf),
                default=0.0,
            )
            for row in known
        ]
        if min(gaps) > self.tolerance:
            self._add_fault(LISTED, f"one is {min(gaps):.2f} away from the target's")

    def _compare(
        self,
        batch: Sequence[Asked],
        answers: Sequence[Sequence[Choice]],
        others: Sequence[Sequence[Choice]],
    ) -> None:
        """Holds texts against those of the engine without drafts."""
        unlike = [*self._plan.kinds, GREEDY][:2]  # the control: these two are known to differ
        for asked, mine, theirs in zip(batch, answers, others, strict=True):
            if asked.kind == GREEDY:
                for one, other in zip(mine, theirs, strict=False):
                    self._compare_greedy(asked, one, other)
            for engine, choices in enumerate((mine, theirs)):
                for choice in choices:
                    tokens = choice.tokens or tuple(choice.text)
                    if asked.kind != GREEDY:
                        self._pairs[asked.name].see(asked.request.prompt, tokens, engine)
                    if asked.alone and asked.kind == unlike[engine]:
                        self._different.see(asked.request.prompt, tokens, engine)

    def _compare_greedy(self, asked: Asked, mine: Choice, theirs: Choice) -> None:
        if mine.text == theirs.text:
            return
        pairs = zip(mine.tokens, theirs.tokens, strict=False)
        place = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if place is None:
            self._add_fault(asked.name, f"{mine.text!r}, without drafts {theirs.text!r}")
            return
        token, other = mine.tokens[place], theirs.tokens[place]
        listed = theirs.likeliest[place] if place < len(theirs.likeliest) else {}
        gap = listed[other] - listed[token] if {token, other} <= {*listed} else math.inf
        if gap <= self.tie:
            self._ties += 1
            return
        far = "by how much is not listed" if math.isinf(gap) else f"{gap:.2f} likelier"
        self._add_fault(asked.name, f"token {place} is {token!r}, not {other!r}: {far}")

    def _try_promises(self, client: Client, cycle: int) -> None:
        """Tries seeds and stop strings, as far as they are to be judged."""
        prompt = self.prompts[cycle % len(self.prompts)]
        request = replace(prompt, sampling=promises.WARM, seed=cycle)
        repeats = "seeds" not in self.skip
        self._asked = "seeds" if repeats else "stop strings"
        text = client.ask([request])[0][0].text
        if repeats and (fault := self._seeds.fault(client, request, text)):
            self._add_fault("seeds", fault)
        self._asked = "stop strings"
        if self._asked not in self.skip:
            fault = promises.stop_fault(client, request, text, repeats=repeats)
            if fault is not None:
                self._add_fault("stop strings", fault)

    def _add_fault(self, name: str, fault: str) -> None:
        """Notes what a single text shows, unless it is not to be judged."""
        if name not in self.skip:
            self._faults.setdefault(name, fault)

    def _growths(self) -> dict[str, float]:
        found = {name: growth(played) for name, played in self._bets.items()}
        return found | {name + AGAINST: pair.growth for name, pair in self._pairs.items()}

    def _is_broken(self) -> bool:
        return bool(self._faults or self._suspicions.confirmed)

    def _result(self, requests: int) -> Result:
        growths, needed = self._growths(), self._suspicions.needed
        confirmed = self._suspicions.confirmed
        findings = [Finding(name, math.inf, 1, fault) for name, fault in self._faults.items()]
        findings += [
            Finding(name, value, self._texts[name.removesuffix(AGAINST)])
            for name, value in sorted(
                growths.items(), key=lambda item: (item[0] not in confirmed, -item[1])
            )
        ]
        controls = [growth(self._control)] if self.expected is not None else []
        controls += [self._different.growth] if self.baseline is not None else []
        control = min(controls, default=0.0)
        suspected = max(growths.values(), default=0.0) >= needed and not confirmed
        verdict = "kept" if control >= needed and not suspected else "too few texts"
        if self._is_broken():
            verdict = "broken"
        return Result(
            verdict, self.level, requests, control, tuple(findings), self._ties, suspected
        )
