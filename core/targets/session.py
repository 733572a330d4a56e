"""CachedSession: one text of a transformers model, on a cache of its own."""

from collections.abc import Sequence
from typing import final

from torch import Tensor

from outrider.contract.draft import Draft, Logits
from outrider.contract.target import Session
from outrider.contract.verifier import Verdict
from outrider.targets.passes.cached_model import CachedModel
from outrider.targets.passes.tree_mask import tree_mask


@final
class CachedSession(Session):
    """Scores drafts on a cached model.

    tokens: the text so far; none of it is in the cache yet.
    """

    def __init__(self, cached: CachedModel, tokens: Sequence[int]) -> None:
        self._cached = cached
        self._pending = list(tokens)  # committed, but not yet in the cache
        self._draft = Draft()

    def score(self, draft: Draft) -> Logits:
        self._draft = draft
        if draft.is_chain:
            return self._cached.feed([*self._pending, *draft.tokens], len(draft) + 1)
        self._pending = self._cached.read_ahead(self._pending)
        tree = tree_mask(draft.parents, pending=len(self._pending), cached=self._cached.length)
        return self._cached.feed_tree([*self._pending, *draft.tokens], len(draft) + 1, tree)

    def commit(self, verdict: Verdict) -> None:
        drafted, accepted = len(self._draft), verdict.accepted
        if accepted == tuple(range(len(accepted))):
            self._cached.drop(drafted - len(accepted))
        else:
            self._cached.retain_rows(drafted, accepted)
        self._pending = [verdict.next_token]

    def features(self) -> dict[str, Tensor]:
        return self._cached.features
