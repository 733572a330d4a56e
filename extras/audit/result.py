"""What an audit found, and its verdict in a line."""

from collections.abc import Mapping
from dataclasses import dataclass
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
    texts: how many were read.
    growth: the logarithm of the evidence against it; None where a single text shows it.
    least: the least total variation of each token's distribution that 1,000 texts would have shown
        in nine audits of ten; None if the largest planted one is not enough.
    fault: what is wrong, if one text shows it.
    """

    name: str
    texts: int
    growth: float | None = None
    least: float | None = None
    fault: str | None = None

    @property
    def cause(self) -> str:
        """Returns what is wrong."""
        return self.fault or f"other tokens than the target's: evidence e^{self.growth:.0f}"


@final
@dataclass(frozen=True, slots=True)
class Result:
    """An audit's result.

    verdict: "broken"; "too few texts" if the control was not found, or if there is a suspicion that
        is not enough for a verdict; else "kept".
    level: as that of an `Auditor`.
    control: the logarithm of the evidence against the control, a distribution that the texts are
        known not to have.
    findings: the broken first, then by evidence.
    ties: greedy texts that differ where two tokens are as good as equally likely.
    suspected: whether there is such a suspicion.
    unjudged: what could not be judged, and why.
    """

    verdict: str
    level: float
    requests: int
    control: float
    findings: tuple[Finding, ...]
    ties: int
    suspected: bool
    unjudged: Mapping[str, str]

    @property
    def line(self) -> str:
        """Returns the verdict in one line."""
        texts = f"{sum(finding.texts for finding in self.findings)} texts"
        if self.verdict == "kept":
            found = [each.least for each in self.findings if each.least is not None]
            seen = f"from {min(found):.2g} to {max(found):.2g}" if found else "above the planted"
            return (
                f"kept: nothing found in {texts}, level {self.level:g} for their tokens; 1,000 of a"
                f" kind would have shown a total variation {seen} by the kind"
            )
        worst = f"{self.findings[0].name}: {self.findings[0].cause}" if self.findings else ""
        if self.verdict == "broken":
            covered = f"level {self.level:g}" if self.findings[0].fault is None else "seen twice"
            return f"broken: {worst} ({texts}, {covered})"
        cause = f"a suspicion: {worst}" if self.suspected else "the control was not found"
        return f"too few texts to say: {texts}, and {cause}"
