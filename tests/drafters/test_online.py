"""Online learns the target's mean distribution after each n-gram, and leaves the text as it is."""

from typing import Any

import pytest
import torch
from tiny.drafters import bound
from tiny.exact import assert_exact

from outrider import ConfigError, Context, Draft, Sampling, Tokens, Verdict
from outrider.drafters.online import Online, Past, SoftCounts
from outrider.drafters.parts.texts.ngrams import NGramTable
from outrider.targets.tabular import TabularTarget
from outrider.testing import Setup
from outrider.testing.tiny_targets import draft_after
from outrider.verifiers.token import Token

SAMPLED = Sampling(temperature=1.0)
P = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.6, 0.2, 0.2]], dtype=torch.float64)


def test_the_distribution_of_the_loop_is_the_targets() -> None:
    target = TabularTarget(2, seed=3)
    assert_exact(Setup(target, Online(), Token(), [1], gamma=2, sampling=SAMPLED), 4)


def taught(**settings: Any) -> Online:
    """Returns a drafter that has seen `P` after 1, after 1, 2 and after 1, 2, 1."""
    drafter = Online(**settings).open()
    context, draft = Context(Tokens([1])), Draft.chain([2, 1])
    drafter.observe(context, draft, P.log(), Verdict((), 0))
    return drafter


def drafted(drafter: Online, text: list[int]) -> torch.Tensor:
    """Returns the distribution of the token that it drafts after a text."""
    draft = draft_after(drafter, TabularTarget(3), text, 1)
    return draft.probs[0]


def test_a_draft_has_the_mean_distribution_after_its_context() -> None:
    uniform = torch.full((3,), 1 / 3, dtype=torch.float64)
    mean = (P.sum(0) + 2 * uniform) / (3 + 2)  # of all, with a prior of 2
    after_1 = (P[0] + P[2] + 2 * mean) / (2 + 2)
    torch.testing.assert_close(drafted(taught(prior=2.0), [0, 1]), after_1)
    torch.testing.assert_close(drafted(taught(prior=2.0), [0, 0]), mean)  # nothing came after 0
    after_2_1 = (P[2] + 2 * after_1) / (1 + 2)
    torch.testing.assert_close(drafted(taught(prior=2.0, order=3), [2, 1]), after_2_1)


def test_tokens_not_kept_share_the_rest() -> None:
    uniform = torch.full((3,), 1 / 3, dtype=torch.float64)
    # The likeliest of each row: .5 of token 0, .8 of token 2, .6 of token 0.
    kept = torch.tensor([1.1, 0, 0.8], dtype=torch.float64)
    mean = (kept + (1 + 3 - 1.9) * uniform) / (3 + 1)
    after_2 = (torch.tensor([0, 0, 0.8], dtype=torch.float64) + (1 + 1 - 0.8) * mean) / 2
    torch.testing.assert_close(drafted(taught(keep=1), [2]), after_2)


def test_a_text_begins_with_the_knowledge_of_the_ones_before() -> None:
    first = taught()
    first.remember(Context(Tokens([1, 2, 1])))
    torch.testing.assert_close(drafted(first.open(), [1]), drafted(taught(), [1]))
    assert first.remembered == 1
    first.forget()
    assert not draft_after(first.open(), TabularTarget(3), [1], 1)


def test_a_fitted_table_is_the_beginning(tmp_path: Any) -> None:
    path = tmp_path / "table.safetensors"
    NGramTable.fit([[0, 1, 2, 0, 1]], 2, 3).save(path)
    drafter = bound(Online(counts=str(path)), TabularTarget(3))
    draft = draft_after(drafter.open(), TabularTarget(3), [0], 3, sampling=Sampling())
    assert draft.tokens == (1, 2, 0)
    taught = drafter.open()
    taught.observe(Context(Tokens([2, 0])), Draft(), P[:1].log(), Verdict((), 0))
    # The table says that 1 follows 0, by 2 of 2 + 1 counts and the rest by unigrams.
    unigrams = torch.tensor([2, 2, 1], dtype=torch.float64) / 5
    fitted = torch.tensor([0, 2, 0]) / 3 + (unigrams * 5 + 3 / 3) / 8 / 3
    torch.testing.assert_close(drafted(taught, [0]), (P[0] + fitted) / 2)
    with pytest.raises(ConfigError, match=r"drafter\.order=1: expected at least 2, as the table"):
        Online(1, counts=str(path)).bind(TabularTarget(3))
    with pytest.raises(ConfigError, match="its vocabulary has 3 tokens, the target's 4"):
        Online(counts=str(path)).bind(TabularTarget(4))


def test_ngrams_that_occurred_last_the_longest_ago_are_dropped() -> None:
    counts = SoftCounts()
    for token in (1, 2, 3, 1):
        counts.add((token,), [0], [0.5])
    past = Past(capacity=2)
    past.learn(counts.rows())
    kept = {token for token in (1, 2, 3) if is_known(past.counts, token)}
    assert kept == {1, 3}


def is_known(counts: SoftCounts, token: int) -> bool:
    uniform = torch.full((4,), 0.25, dtype=torch.float64)
    return not torch.equal(counts.blended(uniform, (token,), 1.0, SoftCounts()), uniform)
