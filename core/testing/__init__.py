"""Testing: checks that a part keeps its contract, exact if they can be.

>>> from outrider.testing import check_drafter, parametrize_with_checks
>>> check_drafter(MyDrafter)                     # raises at the first check that fails
>>> @parametrize_with_checks([MyDrafter])        # in pytest: one test for each check
... def test_conformance(make, check):
...     check(make)

`make` is any callable that returns a new part: a class, a partial, a function. A target is made
once: `check_target(MyTarget())`.

`drafters`, `verifiers`, `policies`, `targets`, `batches`, `engines`, `constraints` and `data` hold
the checks, `kit` the ways to run them. Those of the first three run on `tiny_targets`, and `exact`
sums the probability of every text; `chi_square` is for what was sampled. Testing may import
everything below the lab, built-in drafters, rules and targets included. Start with `kit`.
"""

from outrider.testing.chi_square import chi_square
from outrider.testing.enumerated import EnumeratedChance
from outrider.testing.exact import (
    Setup,
    loop_distribution,
    output_distribution,
    target_distribution,
)
from outrider.testing.kit import (
    Outcome,
    check_drafter,
    check_policy,
    check_target,
    check_verifier,
    checks_of,
    parametrize_with_checks,
    run_checks,
)
from outrider.testing.tiny_targets import VOCAB_SIZE

__all__ = [
    "VOCAB_SIZE", "EnumeratedChance", "Outcome", "Setup", "check_drafter", "check_policy",
    "check_target", "check_verifier", "checks_of", "chi_square", "loop_distribution",
    "output_distribution", "parametrize_with_checks", "run_checks", "target_distribution",
]  # fmt: skip
