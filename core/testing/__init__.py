"""The conformance kit: checks that a drafter, rule or policy keeps the contract, exactly where it can.

>>> from outrider.testing import check_drafter, parametrize_with_checks
>>> check_drafter(MyDrafter)                     # raises at the first check that fails
>>> @parametrize_with_checks([MyDrafter])        # the same under pytest, a test a check
... def test_conformance(make, check):
...     check(make)

`make` is whatever makes a fresh part when called: a class, a partial, a function.
"""

from outrider.testing.exact import loop_distribution, output_distribution, target_distribution
from outrider.testing.kit import (
    Outcome,
    check_drafter,
    check_policy,
    check_verifier,
    checks_of,
    parametrize_with_checks,
    run_checks,
)
from outrider.testing.stage import VOCAB_SIZE

__all__ = [
    "VOCAB_SIZE",
    "Outcome",
    "check_drafter",
    "check_policy",
    "check_verifier",
    "checks_of",
    "loop_distribution",
    "output_distribution",
    "parametrize_with_checks",
    "run_checks",
    "target_distribution",
]
