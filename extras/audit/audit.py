"""Asks an engine until it is known whether its texts have the target's distribution."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

from outrider.base.errors import require
from outrider.base.http import ServerError, Unreadable
from outrider.extras.audit import promises
from outrider.extras.audit.client import Choice, Client, Request, Token
from outrider.extras.audit.expected import PLAIN, Expected
from outrider.extras.audit.greedy import Greedy
from outrider.extras.audit.martingale import Bets, Observation, Suspicions, learned
from outrider.extras.audit.pairs import TwoSamples
from outrider.extras.audit.plan import GREEDY, Asked, batches
from outrider.extras.audit.power import Power
from outrider.extras.audit.result import Finding, Result

REPEATED = 2
"""How many texts have to show what a single text can."""

PLAUSIBLE = 0.005
"""The least probability of a token that is planted to see what would have been found."""

TOLERANCE = 0.2
"""How far listed log-probabilities may be from the expected ones."""

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
    _tests: dict[str, Any] = field(default_factory=dict)
    _powers: dict[str, Power] = field(default_factory=dict)
    _texts: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    _shown: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _greedy: Greedy = field(init=False)
    _names: list[str] = field(init=False)
    _suspicions: Suspicions = field(init=False)
    _seeds: promises.Seeds = field(init=False)

    def __post_init__(self) -> None:
        asked = [it for batch in batches(self.prompts[0], self.skip) for it in batch]
        self._names = [*dict.fromkeys(it.name for it in asked if it.kind != GREEDY)]
        require(bool(self._names), "skip", self.skip, "a kind of sampled texts to be left")
        sources = (self.expected is not None) + (self.baseline is not None)
        count = len(self._names) * sources + 2  # two are those of seeds
        self._suspicions = Suspicions(self.level, count)
        self._seeds = promises.Seeds(self._suspicions.needed)
        self._greedy = Greedy(self.tie, self.expected)

    def run(self, limit: int, report: Callable[[int], None] = lambda done: None) -> Result:
        """Returns the result, as soon as a fault is found or `limit` requests have been sent.

        report: is called with the number of requests sent, after each batch.

        Raises:
            OutriderError: the engine can't be judged: it fails, as without drafts or where that is
                not known, it refuses a request, or does not tell enough.
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
                    asked = [ask.request for ask in batch]
                    self._compare(batch, answers, self.baseline.ask(asked))
                report(self._sent)
                self._suspicions.see(self._growths())
            is_due = cycle < CYCLES_OF_PROMISES or cycle % CYCLES_OF_PROMISES == 0
            if is_due and not self._is_broken() and self._sent + promises.MOST <= limit:
                self._try_promises(cycle)
            cycle += 1
        return self._result()

    def _ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        self._sent += len(requests)
        return self.client.ask(requests)

    def _answers(self, batch: Sequence[Asked]) -> list[list[Choice]]:
        """Returns the engine's answers; none if it fails again and again, and only with drafts."""
        requests = [ask.request for ask in batch]
        for _ in range(REPEATED):
            try:
                return self._ask(requests)
            except Unreadable:
                raise
            except ServerError as error:
                failure = error
        if self.baseline is None:
            hint = "a baseline would tell whether it does without drafts"
            raise ServerError(f"{batch[0].name}: the engine failed, and {hint}: {failure}")
        self.baseline.ask(requests)
        fault = f"the engine failed, and without drafts it did not: {failure}"
        self._add_fault(batch[0].name, fault, REPEATED)
        return []

    def _read(self, batch: Sequence[Asked], answers: Sequence[Sequence[Choice]]) -> None:
        beside: dict[str, Choice] = {}  # in this batch, by kind
        for asked, choices in zip(batch, answers, strict=True):
            if len(choices) != asked.request.n:
                self._add_fault("n", f"{len(choices)} texts came for n={asked.request.n}")
            for choice in choices:
                eos: Collection[int] = ()
                if self.expected is not None:
                    self.expected.see(asked.request, choice, asked.alone)
                    eos = self.expected.eos
                    gap = self.expected.listed_gap(asked.request, choice)
                    if gap > max(TOLERANCE, self._greedy.tie):
                        self._add_fault(LISTED, f"one is {gap:.2f} away from the target's")
                self._add_fault(ENDS, promises.end_fault(asked.request, choice, eos))
                self._texts[asked.name] += 1
                if asked.kind == GREEDY:
                    self._add_fault(asked.name, self._greedy.read(asked, choice))
                else:
                    self._read_sampled(asked, choice, beside.get(asked.kind))
                    beside.setdefault(asked.kind, choice)

    def _read_sampled(self, asked: Asked, choice: Choice, beside: Choice | None) -> None:
        rows = None if self.expected is None else self.expected.rows(asked.request, choice)
        if rows is None or self.expected is None:
            return
        near = beside.tokens if beside is not None else ()
        text: list[Observation] = []
        noise = self.expected.sd / (asked.request.sampling.temperature or 1.0)
        for position, row in enumerate(rows):
            if row is None:
                continue
            token, before = choice.tokens[position], choice.tokens[:position]
            other = near[position] if position < len(near) else None
            text.append(Observation(*row, token, before, other, noise))

        def may(place: int, token: Token) -> bool:
            seen = text[place]
            return float(seen.probs[seen.cells.get(token, -1)]) >= PLAUSIBLE

        prompt = asked.request.prompt
        self._tests.setdefault(asked.name, Bets()).see(prompt, text)
        power = self._powers.setdefault(asked.name, Power(learned))
        for played, planted in power.planted([observed.token for observed in text], may):
            pairs = zip(text, planted, strict=True)
            it = [old if old.token == token else replace(old, token=token) for old, token in pairs]
            played.see(prompt, it)

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
                    self._add_fault(asked.name, self._greedy.compare(asked, mine, theirs))
                    continue
                name, prompt = asked.name + AGAINST, asked.request.prompt
                two = theirs.parts
                self._tests.setdefault(name, TwoSamples()).see(prompt, mine.parts, two)
                power = self._powers.setdefault(name, Power(TwoSamples))
                for played, planted in power.planted(mine.parts):
                    played.see(prompt, planted, two)

    def _try_promises(self, cycle: int) -> None:
        """Tries seeds and stop strings, as far as they are to be judged."""
        if {"seeds", "stop strings"} <= {*self.skip}:
            return
        prompt = self.prompts[cycle % len(self.prompts)]
        request = replace(prompt, sampling=PLAIN, seed=cycle)
        text = self._ask([request])[0][0]
        if "seeds" not in self.skip:
            self._add_fault("seeds", self._seeds.fault(self._ask, request, text), REPEATED)
        if "stop strings" not in self.skip:
            self._add_fault("stop strings", promises.stop_fault(self._ask, request, text))

    def _add_fault(self, name: str, fault: str | None, times: int = 1) -> None:
        """Notes what a single text shows, if it shows anything that is to be judged."""
        if fault is not None and name not in self.skip:
            self._shown[name] += [fault] * times

    @property
    def _faults(self) -> dict[str, str]:
        """Returns what enough texts have shown, by its name."""
        return {name: shown[0] for name, shown in self._shown.items() if len(shown) >= REPEATED}

    def _growths(self) -> dict[str, float]:
        return {name: test.growth for name, test in self._tests.items()}

    def _is_broken(self) -> bool:
        return bool(self._faults or self._suspicions.confirmed)

    def _result(self) -> Result:
        growths, needed = self._growths(), self._suspicions.needed
        confirmed = self._suspicions.confirmed
        findings = [Finding(name, math.inf, 1, fault) for name, fault in self._faults.items()]
        findings += [
            Finding(name, value, self._texts[name.removesuffix(AGAINST)])
            for name, value in sorted(
                growths.items(), key=lambda item: (item[0] not in confirmed, -item[1])
            )
        ]
        firsts = [name + end for name in self._names[:1] for end in ("", AGAINST)]
        controls = [power.growth for name, power in self._powers.items() if name in firsts]
        control = min(controls, default=0.0)
        suspected = max(growths.values(), default=0.0) >= needed and not confirmed
        verdict = "kept" if control >= needed and not suspected else "too few texts"
        if self._is_broken():
            verdict = "broken"
        least = needed + self._suspicions.again
        powers = {name: power.least(least) for name, power in self._powers.items()}
        return Result(
            verdict,
            self.level,
            self._sent,
            control,
            tuple(findings),
            self._greedy.ties,
            suspected,
            powers,
            self._greedy.unjudged,
        )
