"""How any target serves batches: a model of transformers reads its texts side by side."""

from abc import ABC
from collections.abc import Iterable, Iterator, Sequence
from typing import final

from outrider.contract.chance import Chance
from outrider.contract.constraint import Constraint
from outrider.contract.context import Tokens
from outrider.contract.draft import Draft, Logits
from outrider.contract.sampling import Sampling
from outrider.contract.target import Session, Target
from outrider.drafters.parts.networks.text_tree import TextTree
from outrider.extras.batches.batch_target import BatchTarget, PathScorer, score_one_by_one
from outrider.extras.batches.sessions import (
    TogetherSession,
    join_sessions,
    open_sessions,
    score_sessions,
)
from outrider.extras.batches.turns import Turn
from outrider.extras.batches.writing import write, write_encoded, write_turns
from outrider.targets.passes.cached_model import CACHE, CachedModel
from outrider.targets.passes.encoded import decoder_start
from outrider.targets.transformers import TransformersTarget


def batched(target: Target) -> BatchTarget:
    """Returns a target that serves batches: itself, or one that serves them for it.

    The texts of a model of transformers share a cache and their passes. Those of any other target
    are scored one after the other.
    """
    if isinstance(target, BatchTarget):
        return target
    if isinstance(target, TransformersTarget):
        return _SideBySide(target)
    return _OneByOne(target)


class _Served(BatchTarget, ABC):
    """A target whose own texts are those of another one."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.vocab_size = target.vocab_size
        self.max_length, self.eos = target.max_length, target.eos

    def begin(self, prompt: Sequence[int]) -> tuple[list[int], Tokens | None]:
        return self._target.begin(prompt)

    def constraint(
        self, ids: Sequence[int], source: Tokens | None, limit: int | None = None
    ) -> Constraint | None:
        return self._target.constraint(ids, source, limit)

    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        return self._target.open(tokens, needs)


@final
class _OneByOne(_Served):
    """Serves the texts of a target one after the other."""

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


@final
class _SideBySide(_Served):
    """Serves the texts of a model side by side, where its self-test allows it."""

    def __init__(self, target: TransformersTarget) -> None:
        super().__init__(target)
        self._model, self._defaults = target.model, target.defaults
        self._start = decoder_start(target.model)
        self._tested = target.tested

    def open_together(
        self, prompts: Sequence[Sequence[int]], needs: frozenset[str] = frozenset()
    ) -> list[Session]:
        if CACHE in needs or self._tested.batches:  # these need a cache for each text
            return [self.open(prompt, needs) for prompt in prompts]
        return [*open_sessions(self._model, prompts, needs)]

    def join(
        self,
        sessions: Sequence[Session],
        prompt: Sequence[int],
        needs: frozenset[str] = frozenset(),
    ) -> Session:
        batch = [session for session in sessions if isinstance(session, TogetherSession)]
        return join_sessions(batch, prompt) if batch else self.open(prompt, needs)

    def score_together(self, sessions: Sequence[Session], drafts: Sequence[Draft]) -> list[Logits]:
        batch = [session for session in sessions if isinstance(session, TogetherSession)]
        if len(batch) < len(sessions):
            return score_one_by_one(sessions, drafts)
        return score_sessions(batch, drafts)

    def read_ahead(self, session: Session, limit: int) -> int:
        return session.read_ahead(limit) if isinstance(session, TogetherSession) else 0

    def path_scorer(self, prompt: Sequence[int]) -> PathScorer:
        return TextTree(CachedModel(self._model), prompt).logits

    def write(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        chances: Sequence[Chance],
        max_new_tokens: int,
    ) -> list[list[int]]:
        one_by_one = self._tested.sources if self._start else self._tested.batches
        if one_by_one or self._defaults.in_force:
            return super().write(prompts, sampling, chances, max_new_tokens)
        how = write_encoded if self._start else write
        return how(self._model, self.eos, prompts, sampling, chances, max_new_tokens=max_new_tokens)

    def write_turns(self, texts: Iterable[Sequence[Turn]]) -> Iterator[list[list[int]]]:
        if self._start or self._tested.batches or self._defaults.in_force:
            return super().write_turns(texts)
        return write_turns(self._model, self.eos, texts)
