"""Many texts written at once by a transformers model, without a draft."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.pretrained import Model
from outrider.contract.chance import TARGET, Chance
from outrider.contract.draft import Draft, Verdict
from outrider.contract.sampling import Sampling, likeliest
from outrider.contract.target import check_finite
from outrider.decoding.batches.batch_target import Turn, without_end
from outrider.targets.batches.sessions import (
    TogetherSession,
    join_sessions,
    open_sessions,
    score_sessions,
)
from outrider.targets.passes.masks import context_window

WIDTH = 64
"""The most texts in progress at once; more would hardly be faster, and take more memory."""


@final
class _Writing:
    """A text in progress.

    written: the tokens of each turn so far. coming: the turns that did not begin yet.
    length: how many tokens the text has.
    """

    def __init__(self, turns: Sequence[Turn], session: TogetherSession) -> None:
        self.session = session
        self.written: list[list[int]] = []
        self.length = 0
        self.coming: list[Turn] = list(turns)
        self._begin([])

    def _begin(self, before: list[int]) -> None:
        """Begins the next turn, after tokens that are not read yet."""
        self._turn = self.coming.pop(0)
        self._chance = self._turn.chance.named(TARGET)
        self.session.pending = [*before, *self._turn.ids]
        self.length += len(self._turn.ids)
        self.written.append([])

    def go_on(
        self, logits: Float[Tensor, "1 vocab"], eos: frozenset[int], longest: int | None
    ) -> bool:
        """Writes a token, and returns whether there are more to write.

        longest: the most tokens of the text; by default there is no limit.
        """
        token = _draw(self._chance, self._turn.sampling, logits[0])
        self.session.commit(Verdict((), token))
        text = self.written[-1]
        text.append(token)
        self.length += 1
        is_full = self.length == longest
        if len(text) < self._turn.max_new_tokens and token not in eos and not is_full:
            return True
        if not self.coming or is_full:
            return False
        kept = without_end([token], self.coming[0], eos)
        self.length -= 1 - len(kept)
        self._begin(kept)
        return longest is None or self.length < longest


def write(
    model: Model,
    eos: frozenset[int],
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    chances: Sequence[Chance],
    *,
    max_new_tokens: int,
) -> list[list[int]]:
    """Returns a decoder's continuation of each prompt, up to and including an id of `eos`.

    chances: one for each prompt.
    """
    turns = [
        [Turn(prompt, sampling, chance, max_new_tokens)]
        for prompt, chance in zip(prompts, chances, strict=True)
    ]
    return [text for (text,) in write_turns(model, eos, turns)]


@torch.no_grad()
def write_turns(
    model: Model, eos: frozenset[int], texts: Iterable[Sequence[Turn]]
) -> Iterator[list[list[int]]]:
    """Yields what a decoder writes in each turn of a text, up to and including an id of `eos`.

    As one text ends, the next joins, even if it will be yielded later because an earlier one goes
    on. A text's neighbours change its logits by rounding alone. Once the context window is full,
    the turns that are left write nothing.
    """
    longest = context_window(model)
    waiting = enumerate(texts)
    batch: dict[int, _Writing] = {}
    ended: dict[int, list[list[int]]] = {}
    next_number = 0
    while _fill(batch, model, waiting):
        sessions = [writing.session for writing in batch.values()]
        scores = score_sessions(sessions, [Draft()] * len(sessions))
        for (number, writing), logits in zip(list(batch.items()), scores, strict=True):
            if not writing.go_on(logits, eos, longest):
                ended[number] = writing.written + [[] for _ in writing.coming]
                del batch[number]
        while next_number in ended:
            yield ended.pop(next_number)
            next_number += 1


def _fill(
    batch: dict[int, _Writing], model: Model, waiting: Iterator[tuple[int, Sequence[Turn]]]
) -> bool:
    """Adds texts that wait, by number; returns whether there are any in progress."""
    joining = dict(islice(waiting, WIDTH - len(batch)))
    if batch:
        for number, turns in joining.items():
            beside = [writing.session for writing in batch.values()]
            batch[number] = _Writing(turns, join_sessions(beside, []))
    elif joining:
        capacity = max(
            sum(len(turn.ids) + turn.max_new_tokens for turn in turns) for turns in joining.values()
        )
        window = context_window(model)
        capacity = capacity if window is None else min(capacity, window)
        opened = open_sessions(model, [[] for _ in joining], frozenset(), capacity)
        for (number, turns), session in zip(joining.items(), opened, strict=True):
            batch[number] = _Writing(turns, session)
    return bool(batch)


def _draw(chance: Chance, sampling: Sampling, logits: Float[Tensor, "vocab"]) -> int:
    """Returns the next token of a text.

    Raises:
        TargetError: the logits are no distribution.
    """
    if not sampling.greedy:
        probs = sampling.probs(logits)
        if probs[0].isnan():  # as all of them are after one bad logit
            check_finite(logits)
        return chance.categorical(probs)
    token = int(likeliest(logits))  # what a draw from a point mass would give, without making it
    check_finite(logits[token : token + 1])
    return token
