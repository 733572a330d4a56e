"""A model that follows a text, some of which another model has read for it."""

from collections.abc import Sequence
from typing import Any

import torch

from outrider.contract.context import Tokens
from outrider.drafters.parts.networks.cached_text import CachedText
from outrider.targets.passes.cached_model import CACHE, CachedModel


def test_lent_entries_replace_read_ones(llama: Any) -> None:
    """Lending and reading alternate; the lender's values show in what is said."""
    lender, model = llama().double(), llama(1).double()
    text = CachedText(model, model.config.vocab_size)

    def lent(tokens: Sequence[int]) -> dict[str, torch.Tensor]:
        cached = CachedModel(lender, (CACHE,))
        cached.feed(tokens, 1)
        return cached.features

    def right(tokens: Sequence[int], lent_tokens: int) -> torch.Tensor:
        cached = CachedModel(model)
        if lent_tokens:
            cached.lend(lent(tokens), 0, lent_tokens)
        return cached.feed(tokens[lent_tokens:], 1)

    tokens = [3, 4, 5, 6, 7, 8, 9, 10, 11]
    torch.testing.assert_close(
        text.follow_shared(Tokens(tokens[:4]), lent(tokens)), right(tokens[:4], 3)
    )
    torch.testing.assert_close(text.extend([7]), right(tokens[:5], 3))
    torch.testing.assert_close(
        text.follow_shared(Tokens(tokens[:7]), lent(tokens)), right(tokens[:7], 6)
    )
    torch.testing.assert_close(text.follow(Tokens(tokens)), right(tokens, 6))
    other = [3, 4, 9, 9, 9]
    torch.testing.assert_close(text.follow_shared(Tokens(other), lent(other)), right(other, 4))
    assert not torch.allclose(right(other, 4), right(other, 0))
