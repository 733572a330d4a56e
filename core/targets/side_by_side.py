"""The texts of a model of transformers, which share a cache and their passes."""

from abc import ABC
from collections.abc import Iterable, Iterator, Sequence

from outrider.base.pretrained import Model
from outrider.contract.chance import Chance
from outrider.contract.draft import Draft, Logits
from outrider.contract.sampling import Sampling
from outrider.contract.target import Session
from outrider.decoding.batches.batch_target import BatchTarget, PathScorer, score_one_by_one
from outrider.decoding.batches.turns import Turn
from outrider.targets.batches.sessions import (
    TogetherSession,
    join_sessions,
    open_sessions,
    score_sessions,
)
from outrider.targets.batches.writing import write, write_encoded, write_turns
from outrider.targets.defaults import OwnDefaults
from outrider.targets.passes.cached_model import CACHE, CachedModel
from outrider.targets.passes.text_tree import TextTree
from outrider.targets.self_test import SelfTest


class SideBySide(BatchTarget, ABC):
    """A target that reads the texts of its model side by side, where the self-test allows it.

    model: the model. tested: what its self-test found. defaults: what its config asks of texts.
    """

    model: Model
    tested: SelfTest
    defaults: OwnDefaults
    _start: Sequence[int]

    def open_together(
        self, prompts: Sequence[Sequence[int]], needs: frozenset[str] = frozenset()
    ) -> list[Session]:
        if CACHE in needs or self.tested.batches:  # these need a cache for each text
            return [self.open(prompt, needs) for prompt in prompts]
        return [*open_sessions(self.model, prompts, needs)]

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
        return TextTree(CachedModel(self.model), prompt).logits

    def write(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        chances: Sequence[Chance],
        max_new_tokens: int,
    ) -> list[list[int]]:
        one_by_one = self.tested.sources if self._start else self.tested.batches
        if one_by_one or self.defaults.in_force:
            return super().write(prompts, sampling, chances, max_new_tokens)
        how = write_encoded if self._start else write
        return how(self.model, self.eos, prompts, sampling, chances, max_new_tokens=max_new_tokens)

    def write_turns(self, texts: Iterable[Sequence[Turn]]) -> Iterator[list[list[int]]]:
        if self._start or self.tested.batches or self.defaults.in_force:
            return super().write_turns(texts)
        return write_turns(self.model, self.eos, texts)
