"""A uniform number on [0, b]: lenient below 1; above, stricter and lossless by its own residual."""

from typing import Any

import pytest

from outrider import Sampling
from outrider.targets.tabular import TabularTarget
from outrider.testing.exact import Setup, output_distribution, target_distribution
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


def test_above_1_the_rule_accepts_less_and_is_lossless_only_with_its_own_residual(
    accepted_tokens: Any,
) -> None:
    exact = target_distribution(TARGET, [0, 2], 3, SAMPLED, Token())
    assert probs(ScaledUniform(2.0)) == pytest.approx(exact, abs=1e-12)
    plain = probs(ScaledUniform(2.0, "plain"))
    assert max(abs(plain[text] - exact[text]) for text in exact) > 0.01
    drafter = ChainDrafter(TARGET, "drawn")
    counts = [accepted_tokens(ScaledUniform(b), drafter, TARGET, [0, 2], 2) for b in (0.5, 1, 2, 4)]
    assert counts == sorted(counts, reverse=True)
    assert counts[1] == pytest.approx(accepted_tokens(Token(), drafter, TARGET, [0, 2], 2))


def test_the_rule_says_whether_its_settings_are_lossless() -> None:
    assert ScaledUniform(1.0, "plain").lossless
    assert ScaledUniform(2.0).lossless
    assert not ScaledUniform(2.0, "plain").lossless
    assert not ScaledUniform(0.5).lossless
