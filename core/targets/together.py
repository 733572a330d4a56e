"""Together: texts of one batch, each a session of its own."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from jaxtyping import Float
from torch import Tensor

from outrider.contract.draft import Draft
from outrider.contract.target import Session
from outrider.contract.verifier import Verdict
from outrider.runtime.cached_model import HIDDEN, layer
from outrider.runtime.ragged import Ragged
from outrider.runtime.rows import Rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel


LONG = 8
"""Pending tokens that are read with those of other texts; more are read by themselves."""


@final
class TogetherSession(Session):
    """One text of a batch; `score` alone runs a pass for it and nothing else."""

    def __init__(
        self, group: Ragged, number: int, tokens: Sequence[int], needs: frozenset[str]
    ) -> None:
        self.group, self.number = group, number
        self.pending, self.draft = list(tokens), Draft()
        self.wanted = {name: layer(name) for name in needs if name.startswith(HIDDEN)}
        self._rows = {name: Rows() for name in self.wanted}
        self._length = 0

    def score(self, draft: Draft) -> Float[Tensor, "nodes+1 vocab"]:
        return score([self], [draft])[0]

    def commit(self, verdict: Verdict) -> None:
        drafted = len(self.draft)
        self.group.retain_rows(self.number, drafted, verdict.accepted)
        for rows in self._rows.values():
            rows.retain_rows(len(rows) - drafted, verdict.accepted)
        self.pending = [verdict.next_token]

    def features(self) -> dict[str, Tensor]:
        return {name: rows.all() for name, rows in self._rows.items() if len(rows)}

    def read_ahead(self) -> None:
        """Reads all but the last of many pending tokens, as a prompt has, apart from the others."""
        if len(self.pending) <= LONG:
            return
        first, self.pending = self.pending[:-1], self.pending[-1:]
        states = self.group.read(self.number, first, set(self.wanted.values()))
        for name, place in self.wanted.items():
            self._rows[name].extend(states[place])

    def learn(self, states: dict[int, Float[Tensor, "tokens width"]]) -> None:
        """Takes in the states of a pass, of which the last are its own."""
        count = len(self.pending) + len(self.draft)
        for name, place in self.wanted.items():
            self._rows[name].extend(states[place][-count:])


def opened(
    model: "PreTrainedModel", prompts: Sequence[Sequence[int]], needs: frozenset[str]
) -> list[Session]:
    """Returns a session for each prompt, all on one cache."""
    group = Ragged(model, len(prompts))
    return [TogetherSession(group, number, each, needs) for number, each in enumerate(prompts)]


def score(
    sessions: Sequence[TogetherSession], drafts: Sequence[Draft]
) -> list[Float[Tensor, "nodes+1 vocab"]]:
    """Returns the logits of drafts of texts of one batch, after one pass."""
    for session, draft in zip(sessions, drafts, strict=True):
        session.read_ahead()
        session.draft = draft
    found = sessions[0].group.feed(
        [session.number for session in sessions],
        [session.pending for session in sessions],
        drafts,
        {place for session in sessions for place in session.wanted.values()},
    )
    for row, session in enumerate(sessions):
        session.learn({place: states[row] for place, states in found.states.items()})
    return [found.logits[row, -len(draft) - 1 :] for row, draft in enumerate(drafts)]
