"""What an audit found, and its verdict in a line."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

NEVER = (
    "never seen: what shows in few tokens or texts only, such as a wrong bonus token, another"
    " request's prefix in one row, or a fault after the length of the texts"
)
"""What no number of texts of an audit shows."""


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one kind of request, or of one promise.

    name: the kind.
    growth: the logarithm of the evidence against it; infinite where a single text shows it.
    texts: how many were read.
    fault: what is wrong, if one text shows it.
    """

    name: str
    growth: float
    texts: int
    fault: str | None = None

    @property
    def cause(self) -> str:
        """Returns what is wrong."""
        return self.fault or f"other tokens than the target's: evidence e^{self.growth:.0f}"


@final
@dataclass(frozen=True, slots=True)
class Result:
    """An audit's result.

    verdict: "broken"; "too few texts" if the control was not found, or if the texts that came
        after a suspicion have not confirmed it; else "kept".
    level: the chance, at most, that an engine without a fault is suspected, and then again that
        later texts confirm it.
    control: the logarithm of the evidence against the control, a distribution that the texts are
        known not to have.
    findings: the broken first, then by evidence.
    ties: greedy texts that differ where two tokens are as good as equally likely.
    suspected: whether there is a suspicion that is not confirmed.
    powers: by kind and source, the least total variation of each token's distribution that 1,000
        texts would have shown in nine audits of ten; None if the largest planted one is not enough.
    unjudged: what could not be judged, and why.
    """

    verdict: str
    level: float
    requests: int
    control: float
    findings: tuple[Finding, ...]
    ties: int
    suspected: bool
    powers: Mapping[str, float | None] = field(default_factory=dict)
    unjudged: Mapping[str, str] = field(default_factory=dict)

    @property
    def figures(self) -> dict[str, float]:
        """Returns the evidence, where no single text shows a fault, and whether one was found."""
        evidence = {f"{each.name}/evidence": each.growth for each in self.findings}
        found = {name: growth for name, growth in evidence.items() if math.isfinite(growth)}
        return found | {"control": self.control, "broken": float(self.verdict == "broken")}

    @property
    def line(self) -> str:
        """Returns the verdict in one line."""
        texts = f"{sum(finding.texts for finding in self.findings)} texts"
        if self.verdict == "kept":
            found = [power for power in self.powers.values() if power is not None]
            seen = f"from {min(found):.2g} to {max(found):.2g}" if found else "above the planted"
            return (
                f"kept: nothing found in {texts}, level {self.level:g} for their tokens; 1,000 of a"
                f" kind would have shown a total variation {seen} by the kind"
            )
        worst = f"{self.findings[0].name}: {self.findings[0].cause}" if self.findings else ""
        if self.verdict == "broken":
            covered = f"level {self.level:g}" if self.findings[0].fault is None else "seen twice"
            return f"broken: {worst} ({texts}, {covered})"
        cause = f"not confirmed: {worst}" if self.suspected else "the control was not found"
        return f"too few texts to say: {texts}, and {cause}"
