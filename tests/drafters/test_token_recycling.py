"""Token Recycling: a tree of what was observed."""

import torch

from outrider import Context, Draft, Sampling, Tokens, Verdict
from outrider.drafters.token_recycling import TokenRecycling
from outrider.targets.tabular import TabularTarget
from outrider.testing.tiny_targets import write_draft

SAMPLED = Sampling(temperature=1.0)


def test_a_draft_is_a_tree_of_the_targets_likeliest_tokens() -> None:
    drafter = TokenRecycling(candidates=2)
    target = TabularTarget(6)
    context = Context(Tokens([1, 2]))
    logits = torch.zeros(4, 6)
    # After 2 come 3, 4; after 3 comes 5, 0. The second node with 3 is deeper, and does not count.
    for row, (first, second) in enumerate(((3, 4), (5, 0), (1, 0), (0, 1))):
        logits[row, first], logits[row, second] = 2.0, 1.0
    drafter.observe(context, Draft((3, 4, 3), (-1, -1, 1), (None,) * 3), logits, Verdict((), 0))
    draft = write_draft(drafter, target, context, gamma=2, sampling=SAMPLED)
    assert [draft.tokens[node] for node in draft.children(-1)] == [3, 4]
    assert {
        tuple(draft.tokens[node] for node in draft.path(leaf)) for leaf in range(len(draft))
    } == {(3,), (4,), (3, 5), (3, 0), (4, 1), (4, 0)}
