"""The kit finds a pen, a sampling or a check of kinds that is wrong."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outrider.contract import sheet
from outrider.contract.sampling import Sampling
from outrider.decoding import kinds
from outrider.testing import drawing, kit
from outrider.testing.drawing import check_drafts_are_drawn_as_they_are_recorded, plainly_sampled


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    drawing.all_drawn.cache_clear()
    yield
    drawing.all_drawn.cache_clear()


def test_drafts_are_drawn_as_they_are_recorded_and_every_part_is_told_so() -> None:
    check_drafts_are_drawn_as_they_are_recorded(None)
    assert check_drafts_are_drawn_as_they_are_recorded in kit.GROUND


def test_the_plain_computation_is_that_of_transformers() -> None:
    logits = [2.0, 1.0, 1.0, 0.0]
    assert plainly_sampled(logits, Sampling()) == [1, 0, 0, 0]
    assert plainly_sampled([0, 0, -9], Sampling(1.0, top_k=1)) == pytest.approx([0.5, 0.5, 0])
    assert plainly_sampled([0, 0], Sampling(1.0, top_p=0.5))[1] == 1
    assert plainly_sampled([1.0, 0.0], Sampling(1.0, min_p=0.5)) == [1, 0]


FAULTS: dict[str, tuple[Any, str, Callable[[Any], Any], str]] = {
    "q is not warped": (
        Sampling,
        "exact",
        lambda _: lambda self, logits: logits.double().softmax(-1),
        "recorded otherwise",
    ),
    "q is smoothed": (
        Sampling,
        "exact",
        lambda right: lambda *given: right(*given).add(0.01).div(1 + 0.01 * len(given[1])),
        "recorded otherwise",
    ),
    "p is not warped": (
        Sampling,
        "probs",
        lambda _: lambda self, logits: logits.softmax(-1),
        "the target's distribution is another one",
    ),
    "any logits are taken": (
        sheet,
        "checked_logits",
        lambda _: lambda *given: given[0],
        "the pen draws",
    ),
    "tokens past the first 256 are never drawn": (
        drawing,
        "token_at",
        lambda right: lambda probs, share: right(probs[:256], share),
        "within the share of token",
    ),
    "unequal paths are taken": (kinds, "_unequal_paths", lambda _: lambda *_: None, "equal paths"),
    "every draft is of its kind": (
        drawing,
        "violation",
        lambda _: lambda *_: None,
        "may be declared as",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_draft_that_is_drawn_otherwise_is_found(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, patch, line = FAULTS[fault]
    monkeypatch.setattr(owner, name, patch(getattr(owner, name)))
    with pytest.raises(Exception, match=line):
        check_drafts_are_drawn_as_they_are_recorded(None)
