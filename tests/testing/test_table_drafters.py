"""The drafters of every kind are as described."""

import pytest

from outrider import Context, Draft, Policy, Tokens, decode
from outrider.decoding.kinds import violation
from outrider.targets.tabular import TabularTarget
from outrider.testing.table_drafters import (
    CHAINS,
    TREES,
    ChainDrafter,
    SeparateDrafter,
    TreeDrafter,
)
from outrider.testing.tiny_targets import write_draft
from outrider.verifiers.multi_path_block import MultiPathBlock
from outrider.verifiers.sample_match import SampleMatch

CONTEXT = Context(Tokens([1, 2]))


def test_chains_of_each_kind() -> None:
    target = TabularTarget(3)
    for kind in CHAINS:
        drafter = ChainDrafter(target, kind)
        drafts = [write_draft(drafter, target, CONTEXT, gamma=3, seed=seed) for seed in range(60)]
        assert all(draft.is_chain for draft in drafts)
        probs = [distribution for draft in drafts for distribution in draft.probs]
        if kind == "silent":
            assert not probs
        elif kind == "written":
            assert all(distribution is None for distribution in probs)
        elif kind == "mixed":
            assert {distribution is None for distribution in probs} == {True, False}
        elif kind == "disjoint":
            assert all(
                distribution is not None and (distribution == 0).any() for distribution in probs
            )
        elif kind == "short":
            assert {len(draft) for draft in drafts} == {1, 2, 3}


def test_trees_of_each_kind() -> None:
    target = TabularTarget(3)
    for kind in TREES:
        draft = write_draft(TreeDrafter(target, kind), target, CONTEXT, gamma=2)
        assert violation(draft, kind) is None
        assert len(draft) == (4 if kind == "paths" else 6)
        first, second = draft.children(-1)
        assert kind in ("iid", "paths") or draft.tokens[first] != draft.tokens[second]
        assert (draft.probs[first] is None) == (kind == "deterministic")


def test_siblings_of_separate_calls_never_repeat() -> None:
    target = TabularTarget(3)
    for gamma, count in ((0, 0), (1, 2)):
        drafter = SeparateDrafter(target, 2)
        draft = write_draft(drafter, target, CONTEXT, gamma=gamma)
        assert draft.calls == tuple(range(count)) and len(set(draft.tokens)) == count
        assert violation(draft, drafter.kind) is None


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
