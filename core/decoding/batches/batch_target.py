"""What decoding several texts together asks of a target beyond `Target`, and how any serves it."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from outrider.contract.chance import TARGET, Chance
from outrider.contract.constraint import Constraint
from outrider.contract.context import Tokens
from outrider.contract.draft import Draft, Logits, Verdict
from outrider.contract.sampling import Sampling
from outrider.contract.target import Scored, Session, Target


@final
@dataclass(frozen=True, slots=True)
class Turn:
    """What a target reads of a text, and how it goes on.

    ids: what it reads. They replace the id that ended the turn before, if it was one of `eos`.
    sampling, chance, max_new_tokens: of what it writes then, as in `BatchTarget.write`.
    """

    ids: Sequence[int]
    sampling: Sampling
    chance: Chance
    max_new_tokens: int


def without_end(text: list[int], turn: Turn, eos: Collection[int]) -> list[int]:
    """Returns a text without the end of text that a turn's ids replace."""
    return text[:-1] if turn.ids and text and text[-1] in eos else text


class BatchTarget(Target):
    """A target that scores several texts in one pass.

    Any other target is served by `batched`, one text after the other.
    """

    @abstractmethod
    def open_together(
        self, prompts: Sequence[Sequence[int]], needs: frozenset[str] = frozenset()
    ) -> list[Session]:
        """Starts several texts, for `score_together`."""

    @abstractmethod
    def score_together(self, sessions: Sequence[Session], drafts: Sequence[Draft]) -> list[Logits]:
        """Returns what `Session.score` does, for texts that were opened together or have joined."""

    def judge_together(
        self, sessions: Sequence[Session], drafts: Sequence[Draft], judges: Sequence[Any]
    ) -> list[Scored]:
        """Returns what `Session.score_and_judge` does, likewise; by default, nothing is decided."""
        return [(logits, None) for logits in self.score_together(sessions, drafts)]

    def join(
        self,
        sessions: Sequence[Session],
        prompt: Sequence[int],
        needs: frozenset[str] = frozenset(),
    ) -> Session | None:
        """Starts a text to be scored together with others; None, the default, if it can't be.

        None makes the text wait until the others have ended, and starts a new batch then.

        sessions: the texts in progress, out of those that were opened together or have joined them;
            at least one. All others have ended.
        needs: the same as of the other texts.
        """
        return None

    def read_ahead(self, session: Session, limit: int) -> int:
        """Reads up to `limit` tokens of a prompt ahead of its score, and returns how many.

        A text that joins others is read in such parts between their rounds, until nothing is left
        to read ahead. This one returns 0: the first score reads the whole prompt.
        """
        return 0

    def write(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        chances: Sequence[Chance],
        max_new_tokens: int,
    ) -> list[list[int]]:
        """Returns the target's own continuation of each prompt, including the final `eos`.

        The texts are independent of each other. Override this if the target can write them at once.

        chances: one for each prompt; the tokens are drawn with the target's part of it, as those
            that the target adds to drafts are.
        """
        texts: list[list[int]] = []
        for prompt, chance in zip(
            prompts, [chance.named(TARGET) for chance in chances], strict=True
        ):
            session = self.open(prompt)
            ids, source = self.begin(prompt)
            start, limit = len(ids), len(ids) + max_new_tokens
            limit = min(limit, self.max_length or limit)
            own, ended = self.constraint(ids, source, limit), False
            while len(ids) < limit and not ended:
                logits = session.score(Draft())[0]
                logits = logits if own is None else own.logits(ids, logits)
                token = chance.categorical(sampling.probs(logits))
                session.commit(Verdict((), token))
                ids.append(token)
                ended = token in self.eos or (own is not None and own.ends(ids))
            texts.append(ids[start:])
        return texts

    def write_turns(self, texts: Iterable[Sequence[Turn]]) -> Iterator[list[list[int]]]:
        """Yields what the target writes in each turn of a text, as `write` does, text by text.

        This one calls `write` with the whole text of each turn. Override it if the target can write
        several texts at once, or go on where a turn ended without reading the text again.
        """
        for turns in texts:
            head, written = list[int](), list[list[int]]()
            for turn in turns:
                head = [*without_end(head, turn, self.eos), *turn.ids]
                written += self.write([head], turn.sampling, [turn.chance], turn.max_new_tokens)
                head += written[-1]
            yield written


def score_one_by_one(sessions: Sequence[Session], drafts: Sequence[Draft]) -> list[Logits]:
    """Returns the scores of each text's draft, from a pass for each."""
    return [session.score(draft) for session, draft in zip(sessions, drafts, strict=True)]


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
