"""The drafters of every kind are as described."""

import pytest

from outrider import Context, Draft, Policy, Tokens, decode
from outrider.targets.tabular import TabularTarget
from outrider.testing.table_drafters import TREES, ChainDrafter, TreeDrafter
from outrider.testing.tiny_targets import write_draft
from outrider.verifiers.multi_path_block import MultiPathBlock
from outrider.verifiers.sample_match import SampleMatch

CONTEXT = Context(Tokens([1, 2]))


@pytest.mark.parametrize(
    ("kind", "lengths", "recorded"),
    [
        ("drawn", {3}, {True}),
        ("written", {3}, {False}),
        ("mixed", {3}, {True, False}),
        ("silent", {0}, set()),
        ("short", {1, 2, 3}, {True}),
    ],
)
def test_chains_of_each_kind(kind: str, lengths: set[int], recorded: set[bool]) -> None:
    target = TabularTarget(3)
    drafter = ChainDrafter(target, kind)
    drafts = [write_draft(drafter, target, CONTEXT, gamma=3, seed=seed) for seed in range(60)]
    assert {len(draft) for draft in drafts} == lengths
    assert {probs is not None for draft in drafts for probs in draft.probs} == recorded


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("vocab_size", [1, 3])
def test_a_tree_ends_where_a_policy_stops_it(kind: str, vocab_size: int) -> None:
    target = TabularTarget(vocab_size)
    drafter, options = TreeDrafter(target, kind), {"policy": Heeded(), "max_new_tokens": 4}
    rounds = list(decode(target, drafter, SampleMatch(), [0], gamma=3, budget=6, **options))
    assert sum(len(round.tokens) for round in rounds) == 4
    assert {len(round.draft) for round in rounds} <= {0, 1, 2}


def test_paths_are_equally_long_whatever_the_budget() -> None:
    target = TabularTarget(3)
    drafter, rule = TreeDrafter(target, "paths"), MultiPathBlock()
    for budget in (3, 5):
        rounds = decode(target, drafter, rule, [0], gamma=3, budget=budget, max_new_tokens=6)
        assert {len(round.draft) for round in rounds} <= {0, 2, 4}


class Heeded(Policy):
    """Stops each draft after the first token or group of siblings."""

    def depth(self, gamma: int) -> int:
        return gamma

    def more(self, draft: Draft) -> bool:
        return False
