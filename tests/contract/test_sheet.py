"""A sheet takes only logits and ids, keeps what was written, and stops where the policy says."""

from typing import Any

import pytest
import torch

from outrider import DrafterError, SampledChance, Sampling
from outrider.contract.draft import ROOT
from outrider.contract.sheet import Sheet


def blank(more: Any = None) -> Sheet:
    chance = SampledChance.seeded(0)
    return Sheet(sampling=Sampling(), chance=chance, vocab_size=3, gamma=9, more=more)


def test_the_sheet_keeps_the_tokens_of_one_call_together() -> None:
    sheet, logits = blank(), torch.zeros(3)
    sheet.submit([(2, None)], ROOT, None)
    sheet.submit([(0, logits), (1, logits)], 0, logits)
    draft = sheet.finish()
    assert (draft.tokens, draft.parents, draft.calls) == ((2, 0, 1), (-1, 0, 0), (0, 1, 1))
    assert draft.logits[0] is None
    assert draft.logits[1] is draft.logits[2] is logits
    assert [sheet.depth(node) for node in (ROOT, 0, 1, 2)] == [0, 1, 2, 2]


def test_a_draft_that_is_handed_in_takes_no_more_tokens() -> None:
    sheet = blank()
    sheet.submit([(2, None)], ROOT, None)
    assert sheet.finish().tokens == sheet.finish().tokens == (2,)
    with pytest.raises(DrafterError, match=r"wrote after propose\(\) had returned"):
        sheet.submit([(1, None)], 0, None)
