"""Sessions of one batch: the texts share a cache and their passes."""

from collections.abc import Iterator, Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.pretrained import Model
from outrider.contract.devices import placed
from outrider.contract.draft import Draft, Logits, Verdict
from outrider.contract.judge import Judge
from outrider.contract.target import Scored, Session
from outrider.targets.batches.batch_cache import BatchCache, BatchEngine
from outrider.targets.batches.batch_rows import PaddedBatch
from outrider.targets.passes.cached_model import HIDDEN, state_number
from outrider.targets.passes.engine import engine_of
from outrider.targets.passes.growing_tensor import GrowingTensor
from outrider.targets.passes.placement import home

LONG = 8
"""Up to this many pending tokens are read along with other texts; more get a separate pass."""


@final
class TogetherSession(Session):
    """One text of a batch; its own `score` runs a pass for this text alone.

    group, number: the batch, and the text's number in it.
    pending: tokens that are committed but not yet in the cache.
    draft: the draft that was scored last.
    state_of: for each feature's name, the number of the hidden states that it stands for.
    """

    def __init__(
        self, group: BatchCache, number: int, tokens: Sequence[int], needs: frozenset[str]
    ) -> None:
        self.group = group
        self.number = number
        self.pending: list[int] = list(tokens)
        self.draft: Draft = Draft()
        self.state_of: dict[str, int] = {
            name: state_number(name) for name in needs if name.startswith(HIDDEN)
        }
        self._states = {name: GrowingTensor() for name in self.state_of}
        self._is_scored = False

    def score(self, draft: Draft) -> Logits:
        return score_sessions([self], [draft])[0]

    def commit(self, verdict: Verdict) -> None:
        drafted, accepted = len(self.draft), verdict.accepted
        self.group.retain_rows(self.number, drafted, accepted)
        for states in self._states.values():
            start = len(states) - drafted
            if accepted == tuple(range(len(accepted))):  # which asks nothing of the device
                states.crop(start + len(accepted))
            else:
                rows = placed(accepted, home(self.group.model))
                states.retain_rows(start, rows + start)
        self.pending = [verdict.next_token]

    def features(self) -> dict[str, Tensor]:
        if not self._is_scored:  # a part of the prompt may have been read, which is no text
            return {}
        return {name: states.content for name, states in self._states.items()}

    def read_ahead(self, limit: int) -> int:
        if len(self.pending) <= LONG:
            return 0
        count = min(limit, len(self.pending) - 1)
        tokens, self.pending = self.pending[:count], self.pending[count:]
        states = self.group.read(self.number, tokens, set(self.state_of.values()))
        for name, number in self.state_of.items():
            self._states[name].append(states[number])
        return count

    def places(self, states: dict[int, Float[Tensor, "tokens width"]]) -> Iterator[list[Tensor]]:
        """Adds the states of a pass: yields where each is to be copied, and it."""
        self._is_scored = True
        for name, number in self.state_of.items():
            yield [self._states[name].place(states[number]), states[number]]


def new_batch(model: Model, sequences: int, capacity: int) -> BatchCache:
    """Returns an empty cache for a batch, as the model's engine has it.

    capacity: how many tokens of each sequence to make room for at first.
    """
    engine = engine_of(model)
    own = engine.new_batch(model, sequences, capacity) if isinstance(engine, BatchEngine) else None
    return own or PaddedBatch(model, sequences, capacity)


def open_sessions(
    model: Model, prompts: Sequence[Sequence[int]], needs: frozenset[str], capacity: int = 0
) -> list[TogetherSession]:
    """Returns a session for each prompt, all on one cache.

    capacity: how many tokens of each text to make room for at first, if not only for the prompts.
    """
    group = new_batch(model, len(prompts), max([capacity, *map(len, prompts)]))
    return [TogetherSession(group, number, prompt, needs) for number, prompt in enumerate(prompts)]


def join_sessions(beside: Sequence[TogetherSession], prompt: Sequence[int]) -> TogetherSession:
    """Returns a session for a prompt on the cache of other texts, in place of one that has ended.

    beside: the texts that have not ended, at least one; the new text has features as they have.
    """
    group = beside[0].group
    number = group.join({session.number for session in beside})
    return TogetherSession(group, number, prompt, frozenset(beside[0].state_of))


def score_sessions(sessions: Sequence[TogetherSession], drafts: Sequence[Draft]) -> list[Logits]:
    """Returns the logits of drafts for texts of one batch, after a single pass."""
    return [logits for logits, _ in judge_sessions(sessions, drafts, ())]


def judge_sessions(
    sessions: Sequence[TogetherSession], drafts: Sequence[Draft], judges: Sequence[Judge | None]
) -> list[Scored]:
    """Does what `score_sessions` does, and may decide on the drafts in the same pass."""
    for session, draft in zip(sessions, drafts, strict=True):
        session.read_ahead(len(session.pending))
        session.draft = draft
    passes = sessions[0].group.feed(
        [session.number for session in sessions],
        [session.pending for session in sessions],
        drafts,
        {number for session in sessions for number in session.state_of.values()},
        judges=judges,
    )
    copied = list[list[Tensor]]()
    for session, result in zip(sessions, passes, strict=True):
        copied += session.places({number: states[0] for number, states in result.states.items()})
    if copied:
        there, here = (list(part) for part in zip(*copied, strict=True))
        torch._foreach_copy_(there, here)  # one kernel for all texts
    return [(it.logits[0], it.verdicts[0] if it.verdicts else None) for it in passes]
