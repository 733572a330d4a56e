"""A sheet keeps what was written, and stops where the policy says."""

import torch

from outrider.contract.draft import ROOT, Draft
from outrider.contract.sheet import Sheet


def test_the_sheet_keeps_the_tokens_of_one_call_together() -> None:
    sheet, logits = Sheet(None), torch.zeros(3)
    sheet.submit([(2, None)], ROOT, None)
    sheet.submit([(0, logits), (1, logits)], 0, logits)
    logits += 1  # the drafter uses its buffer again
    draft = sheet.draft()
    assert (draft.tokens, draft.parents, draft.calls) == ((2, 0, 1), (-1, 0, 0), (0, 1, 1))
    assert draft.logits[0] is None
    assert draft.logits[1] is not None and not draft.logits[1].any()
    assert [sheet.depth(node) for node in (ROOT, 0, 1, 2)] == [0, 1, 2, 2]


def test_the_policy_sees_the_whole_draft() -> None:
    seen: list[Draft] = []

    def more(draft: Draft) -> bool:
        seen.append(draft)
        return len(draft) < 2

    sheet = Sheet(more)
    for parent in (ROOT, 0):
        assert not sheet.stopped
        sheet.submit([(1, None)], parent, None)
    assert sheet.stopped
    assert [draft.tokens for draft in seen] == [(1,), (1, 1)]
