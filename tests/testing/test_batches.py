"""Each check of texts at once catches a target with the fault that it is there for."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
from tiny.toy_target import PlainBatch
from torch import Tensor

from outrider import BatchTarget, Draft, Sampling, Session
from outrider.decoding.batches.batch_target import Turn
from outrider.testing import batches as checks


class RowsMixed(PlainBatch):
    """Scores the texts of a batch in the order of their drafts' lengths."""

    def score_together(self, sessions: Sequence[Session], drafts: Sequence[Draft]) -> list[Tensor]:
        rows = super().score_together(sessions, drafts)
        return [rows[-1][: len(rows[0])].clone(), *rows[1:]] if len(rows) == 3 else rows


class BatchShifted(PlainBatch):
    """In a batch, every text but the first stands one position late, as if it were padded."""

    def open_together(self, prompts: Any, *_: Any, **__: Any) -> list[Session]:
        first, *rest = prompts
        return [self.open(first), *(self.open([1, *prompt]) for prompt in rest)]


class JoinsBehindTheEnded(PlainBatch):
    """A text that joins goes on in the cache of one that has ended."""

    def open_together(self, prompts: Any, *_: Any, **__: Any) -> list[Session]:
        self.opened = [self.open(prompt) for prompt in prompts]
        return self.opened

    def join(self, sessions: Any, prompt: Any, *_: Any, **__: Any) -> Session:
        session: Any = self.open(prompt)
        ended: Any = next(other for other in self.opened if other not in sessions)
        session.cache = ended.cache
        return session


class ReadsTooFarAhead(PlainBatch):
    def read_ahead(self, session: Session, limit: int) -> int:
        return limit + 1


Texts = list[list[int]]


class WritesShifted(PlainBatch):
    """Writes as if the shorter prompts began with their padding."""

    def write(self, prompts: Any, *others: Any, **_: Any) -> Texts:
        width = max(map(len, prompts))
        padded = [[1] * (width - len(prompt)) + list(prompt) for prompt in prompts]
        return super().write(padded, *others)


class WritesUnwarped(PlainBatch):
    """Forgets the temperature, unless it is 0."""

    def write(self, prompts: Any, sampling: Sampling, *others: Any, **_: Any) -> Texts:
        plain = sampling if sampling.greedy else Sampling(temperature=1.0)
        return super().write(prompts, plain, *others)


class WritesPastTheEnd(PlainBatch):
    eos = frozenset({5})

    def write(self, *others: Any, **_: Any) -> Texts:
        *before, max_new_tokens = others
        return super().write(*before, max_new_tokens + 1)


class ForgetsTurns(PlainBatch):
    """Writes each turn as if it were a text."""

    def write_turns(self, texts: Iterable[Sequence[Turn]]) -> Iterator[Texts]:
        for turns in texts:
            yield [
                self.write([turn.ids], turn.sampling, [turn.chance], turn.max_new_tokens)[0]
                for turn in turns
            ]


class AnswersOnce(PlainBatch):
    def write_turns(self, texts: Iterable[Sequence[Turn]]) -> Iterator[Texts]:
        return super().write_turns(turns[:1] for turns in texts)


FAULTY: list[tuple[Any, Callable[[Any], Any]]] = [
    (RowsMixed, checks.check_a_batch_equals_its_texts),
    (BatchShifted, checks.check_a_batch_equals_its_texts),
    (JoinsBehindTheEnded, checks.check_texts_that_join_equal_those_alone),
    (ReadsTooFarAhead, checks.check_texts_that_join_equal_those_alone),
    (WritesShifted, checks.check_write_equals_plain_decoding),
    (WritesUnwarped, checks.check_write_equals_plain_decoding),
    (WritesPastTheEnd, checks.check_write_equals_plain_decoding),
    (ForgetsTurns, checks.check_turns_go_on_where_the_last_ended),
    (AnswersOnce, checks.check_turns_go_on_where_the_last_ended),
]


@pytest.mark.parametrize(("part", "check"), FAULTY)
def test_the_check_catches_its_faulty_part(part: Any, check: Callable[[Any], Any]) -> None:
    with pytest.raises(AssertionError):
        check(part)


def test_every_check_has_a_faulty_part() -> None:
    assert {check for _, check in FAULTY} == set(checks.CHECKS)


def test_a_target_that_lets_no_text_join_says_so() -> None:
    class Grouped(PlainBatch):
        join = BatchTarget.join

    outcome = checks.check_texts_that_join_equal_those_alone(Grouped)
    assert outcome == "texts wait until the others have ended"
