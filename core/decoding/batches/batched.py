"""How any target serves batches: by itself, or one text after the other."""

from collections.abc import Sequence
from typing import final

from outrider.contract.constraint import Constraint
from outrider.contract.context import Tokens
from outrider.contract.draft import Draft, Logits
from outrider.contract.target import Session, Target
from outrider.decoding.batches.batch_target import BatchTarget, score_one_by_one


def batched(target: Target) -> BatchTarget:
    """Returns a target that serves batches: itself, or one that scores text after text for it."""
    return target if isinstance(target, BatchTarget) else OneByOne(target)


@final
class OneByOne(BatchTarget):
    """Serves the texts of a target one after the other."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.vocab_size: int = target.vocab_size
        self.max_length: int | None = target.max_length
        self.eos: frozenset[int] = target.eos

    def begin(self, prompt: Sequence[int]) -> tuple[list[int], Tokens | None]:
        return self._target.begin(prompt)

    def constraint(
        self, ids: Sequence[int], source: Tokens | None, limit: int | None = None
    ) -> Constraint | None:
        return self._target.constraint(ids, source, limit)

    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        return self._target.open(tokens, needs)

    def open_together(
        self, prompts: Sequence[Sequence[int]], needs: frozenset[str] = frozenset()
    ) -> list[Session]:
        return [self.open(prompt, needs) for prompt in prompts]

    def score_together(self, sessions: Sequence[Session], drafts: Sequence[Draft]) -> list[Logits]:
        return score_one_by_one(sessions, drafts)

    def join(
        self,
        sessions: Sequence[Session],
        prompt: Sequence[int],
        needs: frozenset[str] = frozenset(),
    ) -> Session:
        return self.open(prompt, needs)
