"""Rounding is no fault: engines that only round are not called broken, whatever they round to."""

import pytest
from tiny.audit_faults import null
from tiny.rounded_engine import Chain, RoundedEngine

from outrider import OutriderError
from outrider.extras.audit.audit import Auditor
from outrider.extras.audit.client import Request
from outrider.extras.audit.expected import FromTarget


@pytest.mark.parametrize("seed", (1, 4, 5, 82))
def test_an_engine_that_only_rounds_is_not_called_broken(seed: int) -> None:
    name, result = null(seed)
    assert result.verdict in ("kept", "too few texts"), name
    assert not result.suspected, name


@pytest.mark.parametrize("race", [True, False])
def test_an_edge_of_top_k_that_rounding_moves_is_no_evidence(race: bool) -> None:
    """Logits from 22.4 to 21.78 have the same values in bfloat16, or others by an eighth."""
    chain = Chain(8, 0.0)
    chain.weights[:] = 0
    chain.states[:], chain.weights[0] = 1.0, [2.4, 2.3, 2.2, 2.0, 1.8, 1.78, 1.76, 1.0]
    engine = RoundedEngine(chain, "bfloat16", race=race)
    skip = ["greedy", "seeds", "stop strings", "temperature 1", "penalties", "repetition penalty"]
    result = Auditor(engine, [Request((1,), 24)], FromTarget(chain), skip=skip).run(120)
    assert result.verdict != "broken" and not result.suspected, result.line


def test_an_engine_with_other_weights_is_not_judged() -> None:
    engine, expected = RoundedEngine(Chain(64, 2.0, seed=1)), FromTarget(Chain(64, 2.0))
    with pytest.raises(OutriderError, match="expected the same weights, and target"):
        Auditor(engine, [Request((1,), 8)], expected).run(60)
