"""A broken promise is seen: faults are planted, and each is found by one example."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fuzz.parts import Example, Outcome, make_target
from fuzz.run import run_example
from outrider import Verdict
from outrider.base.errors import OutriderError
from outrider.decoding import decode as loop
from outrider.verifiers.token import Token

TABLE = {"kind": "table", "vocab_size": 3, "seed": 1}
Patch = pytest.MonkeyPatch


def example(**changes: Any) -> Example:
    """An example of two greedy texts with copied drafts, and what is changed of it."""
    usual: dict[str, Any] = {
        "target": TABLE,
        "drafter": {"drafter": "prompt_lookup"},
        "verifier": {"verifier": "token"},
        "policy": {"policy": "fixed"},
        "prompts": [[0, 1, 0, 1], [2, 2]],
        "max_new_tokens": 8,
    }
    return Example(**usual | changes)


SAMPLED = {"temperature": 1.0}
STAGED = {"drafter": "staged_chain", "kind": "drawn"}
ENUMERATED = {"sampling": SAMPLED, "drafter": STAGED, "enumerate": True, "max_new_tokens": 2}


def test_a_refusal_is_no_fault() -> None:
    outcome = run_example(example(drafter={"drafter": "random", "tree": "2x2"}))
    assert outcome == Outcome(refused=outcome.refused)
    assert outcome.refused is not None and "writes 'distinct' drafts" in outcome.refused


def of_the_greedy_text(patch: Patch) -> None:
    patch.setattr(Token, "verify", lambda self, draft, scores, chance: Verdict((), 0))


def of_the_distribution(patch: Patch) -> None:
    """Whatever follows a rejection is drawn from p, not from the residual."""
    patch.setattr("outrider.verifiers.token.residual", lambda p, *others: p)


def of_batches(patch: Patch) -> None:
    right = loop.decode
    patch.setattr(
        "fuzz.run.decode",
        lambda *a, **settings: right(*a, **settings | {"number": settings["number"] + 5}),
    )


@pytest.mark.parametrize(
    ("fault", "changes"),
    [
        (of_the_greedy_text, {}),
        (of_the_distribution, ENUMERATED),
        (of_batches, {"sampling": SAMPLED}),
    ],
)
def test_a_planted_fault_is_found(
    fault: Callable[[Patch], None], changes: dict[str, Any], monkeypatch: Patch
) -> None:
    run_example(example(**changes))
    fault(monkeypatch)
    with pytest.raises((AssertionError, OutriderError)):
        run_example(example(**changes))


def test_a_table_with_zeros_keeps_two_tokens_in_each_row() -> None:
    target: Any = make_target({"kind": "table", "vocab_size": 5, "order": 2, "zeros": 0.9})
    possible = torch.isfinite(target.table).sum(-1)
    assert int(possible.min()) == 2 and int(possible.max()) < 5
