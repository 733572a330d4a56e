"""Continuous batching: when a text ends, the next prompt takes its place."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import final

from outrider.base.calling import calling, returned
from outrider.contract.drafter import Drafter
from outrider.contract.round import Round
from outrider.contract.target import Scored, Session
from outrider.decoding.batches.batch_target import batched
from outrider.decoding.calls import computing
from outrider.decoding.clock import Lap, now
from outrider.decoding.rounds import Proposal, finish, judge_of, propose, remember
from outrider.decoding.run import ActiveText, Run

READ = 256
"""The most tokens of prompts that are read between two rounds of the texts in progress."""


@final
class Batch:
    """The texts of several prompts, of which some are written and some still read.

    prompts: in the order in which they get their turn.
    needs: the features that all sessions keep.
    size: the most texts in progress at once.
    begin: makes the text of a prompt, by its index, in a session.
    """

    def __init__(
        self,
        run: Run,
        prompts: Sequence[Sequence[int]],
        needs: frozenset[str],
        size: int,
        begin: Callable[[int, Session], ActiveText],
    ) -> None:
        self._run, self._prompts, self._needs = run, prompts, needs
        self._target, self._serving = run.target, batched(run.target)
        self._size, self._begin = size, begin
        self._next = 0  # the index of the first prompt that no text has been opened for
        self._reading: dict[int, ActiveText] = {}
        self._read_tokens: dict[int, int] = {}  # since the last round
        self._read_seconds = 0.0  # likewise
        self._seconds: dict[int, float] = {}  # spent on each text before its first round
        self._ended: dict[int, ActiveText] = {}  # those that a drafter will remember
        self._drafter: Drafter | None = None  # of all texts, once there were several
        self._writing: dict[int, ActiveText] = {}  # those that are ready to be written
        self._open()

    def rounds(self) -> Iterator[tuple[int, Round]]:
        """Yields the rounds of all texts, each with the text's index."""
        while True:
            with computing(self._target):
                self._fill()
                if not self._writing:
                    return
                proposals = self._propose()
                finished: list[tuple[int, Round]] = []
                for index, (logits, decided), seconds in self._score(proposals):
                    given = self._writing[index], proposals[index], logits, Lap(seconds)
                    finished.append((index, finish(self._run, *given, decided=decided)))
            for index, round in finished:
                if round.stop is not None:
                    self._end(index)
            yield from finished

    def _fill(self) -> None:
        """Opens texts for the next prompts where others have ended, and reads on in prompts.

        While texts are written, at most `READ` tokens are read. Otherwise nobody waits, and the
        next round reads all that is left.
        """
        self._open()
        is_held_back, room = bool(self._writing), READ
        for index, text in list(self._reading.items()):
            if is_held_back:
                room = self._read(index, room)
                if not room:
                    return
            with calling("policy", text.policy):
                text.policy.reset()
            self._writing[index] = self._reading.pop(index)

    def _read(self, index: int, room: int) -> int:
        """Reads on in a prompt, up to `room` tokens, and returns how many of these are left."""
        session, began, left = self._reading[index].session, now(), room
        with calling("target", self._target):
            while left and (count := self._serving.read_ahead(session, left)):
                left -= count
        self._read_tokens[index] = room - left
        self._read_seconds += now() - began
        return left

    def _end(self, index: int) -> None:
        """Takes a text out of those that are written.

        When the last one ends, the drafters that remember texts get theirs.
        """
        text = self._writing.pop(index)
        if text.drafter.remembers:
            self._ended[index] = text
        if not self._writing and not self._reading and self._next == len(self._prompts):
            remember(text for _, text in sorted(self._ended.items()))

    def _propose(self) -> dict[int, Proposal]:
        """Returns each text's proposal."""
        texts = list(self._writing.values())
        count, own = len(texts), texts[0].drafter
        if self._drafter is None and count > 1:
            with calling("drafter", own):
                self._drafter = own.open_together()
        # A tree that is steered grows step by step, with a cache of its text's own.
        is_steered = self._run.verifier.coupled or any(it.constraint is not None for it in texts)
        if self._drafter is not None and not (own.trees and is_steered):
            proposals = propose(self._run, texts, self._drafter, count)
        else:
            proposals = [propose(self._run, [it], it.drafter, count)[0] for it in texts]
        return dict(zip(self._writing, proposals, strict=True))

    def _score(self, proposals: Mapping[int, Proposal]) -> Iterator[tuple[int, Scored, float]]:
        """Yields each text's index, its scores and its seconds, after one pass over all drafts.

        A target may read parts of prompts in the same pass. So the time of both is divided in
        proportion to the tokens; what falls to a text before its first round is counted there.
        """
        began, texts, run = now(), self._writing, self._run
        judges = [judge_of(run, texts[index], part) for index, part in proposals.items()]
        with calling("target", self._target):
            scores = self._serving.judge_together(
                [texts[index].session for index in proposals],
                [proposal.to_score for proposal in proposals.values()],
                judges,
            )
        seconds = self._read_seconds + now() - began
        tokens = Counter(self._read_tokens)
        tokens.update({index: len(part.to_score) + 1 for index, part in proposals.items()})
        for index, count in tokens.items():
            share = seconds * count / tokens.total()
            self._seconds[index] = self._seconds.get(index, 0.0) + share
        self._read_tokens, self._read_seconds = {}, 0.0
        for index, scored in zip(proposals, scores, strict=True):
            yield index, scored, self._seconds.pop(index)

    def _open(self) -> None:
        in_progress = self._writing | self._reading
        free = self._size - len(in_progress)
        waiting = range(self._next, min(self._next + free, len(self._prompts)))
        if not in_progress and waiting:
            prompts = [self._prompts[index] for index in waiting]
            with calling("target", self._target):
                sessions = self._serving.open_together(prompts, self._needs)
            self._add(dict(zip(waiting, sessions, strict=True)))
            return
        for index in waiting:
            beside = [text.session for text in (self._writing | self._reading).values()]
            with calling("target", self._target):
                session = self._serving.join(beside, self._prompts[index], self._needs)
            if session is None:
                return
            self._add({index: session})

    def _add(self, sessions: Mapping[int, Session]) -> None:
        for index, session in sessions.items():
            with calling("target", self._target):
                returned(session, Session)
            self._reading[index] = self._begin(index, session)
            self._next = index + 1
