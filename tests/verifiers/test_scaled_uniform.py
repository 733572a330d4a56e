"""A uniform number on [0, b]: lenient below 1; above, lossless by its own residual."""

from typing import Any

import pytest

from outrider import Sampling
from outrider.targets.tabular import TabularTarget
from outrider.testing.exact import Setup, output_distribution
from outrider.testing.table_drafters import ChainDrafter
from outrider.verifiers.lenient import Lenient, ScaledUniform
from outrider.verifiers.token import Token

SAMPLED = Sampling(temperature=1.0)
TARGET = TabularTarget(3)


def probs(verifier: Any) -> dict[tuple[int, ...], float]:
    drafter = ChainDrafter(TARGET, "drawn")
    return output_distribution(
        Setup(TARGET, drafter, verifier, [0, 2], gamma=2, sampling=SAMPLED, budget=2)
    )


def test_at_b_of_1_the_rule_is_the_token_rule_and_below_lenience() -> None:
    assert probs(ScaledUniform(1.0)) == pytest.approx(probs(Token()), abs=1e-12)
    for residual in ("own", "plain"):
        assert probs(ScaledUniform(0.3, residual)) == pytest.approx(probs(Lenient(0.3)), abs=1e-12)


def test_the_rule_says_whether_its_settings_are_lossless() -> None:
    assert ScaledUniform(1.0, "plain").lossless
    assert ScaledUniform(2.0).lossless
    assert not ScaledUniform(2.0, "plain").lossless
    assert not ScaledUniform(0.5).lossless
