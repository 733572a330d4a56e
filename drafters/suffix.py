"""Suffix: copies what most often followed the text's last tokens, in this text and in others."""

import copy
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Self, final

from outrider.base.bounds import Count, Share, checked
from outrider.base.expectations import Above, Within
from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import DrafterExample
from outrider.contract.pen import Pen
from outrider.drafters.parts.texts.suffix_automaton import END, ROOT, SuffixAutomaton
from outrider.drafters.parts.texts.text_memory import RememberingDrafter, TextMemory


@final
class Suffix(RememberingDrafter["Past"]):
    """Copies after the longest match, here or in earlier texts (SuffixDecoding, 2411.04975).

    Looks for the longest suffix of the text that occurred before, in the text itself and in texts
    that ended before it began. Each of the two matches gives a draft: what followed most often,
    token by token, and the longer the match, the longer the draft. The one with more tokens
    expected to be right is written. An encoder's source counts as coming before the text.

    factor: the most tokens of a draft, for each token of the match.
    min_probability: the draft ends before its estimated probability falls below this. A token's
        estimate is its share of all that followed the match.
    remember: whether to search earlier texts, too. They take about a kilobyte for each token.
    capacity: the most tokens of earlier texts to keep. Where they are more, the oldest texts are
        dropped until half of it is left. None for no limit.
    memory: a file that keeps them from run to run.
    """

    examples: ClassVar[tuple[DrafterExample, ...]] = (
        DrafterExample(text=(1, 2, 3, 4, 1, 2), draft=(3, 4, 1, 2, 3, 4), gamma=6),
        DrafterExample(text=(7, 1, 2), draft=(3, 4), earlier=((1, 2, 3, 4),)),
        DrafterExample(text=(7, 1, 2, 8), draft=(9,), earlier=((7, 1, 2), (2, 8, 9))),
    )

    @checked("drafter")
    def __init__(
        self,
        factor: Annotated[float, Above(0)] = 4.0,
        min_probability: Share = 0.1,
        remember: bool = True,
        capacity: Count | None = 500_000,
        memory: str | None = None,
    ) -> None:
        self._factor = factor
        self._min_probability = min_probability
        super().__init__(partial(Past, capacity), remember, memory)
        self._start_over(None)

    def open(self) -> Self:
        text = copy.copy(self)
        text._start_over(None)
        return text

    def _start_over(self, source: Tokens | None) -> None:
        self._text, self._source = Tokens([]), source
        self._own = SuffixAutomaton()
        self._own.extend(source or ())
        self._match = Match(self._past)

    def propose(self, context: Context, pen: Pen) -> None:
        if not pen.open:
            return
        try:
            self._follow(context.tokens, context.source)
            own = self._draft(self._own, *self._own.repeated(), pen.gamma)
        except BaseException:
            self._start_over(None)  # an interruption leaves a wrong automaton
            raise
        past = self._draft(self._past.texts, self._match.state, self._match.length, pen.gamma)
        for token in max(own, past, key=lambda draft: draft[0])[1]:
            if not pen.open:
                return
            pen.write(token)

    def _draft(
        self, texts: SuffixAutomaton, state: int, length: int, gamma: int
    ) -> tuple[float, list[int]]:
        """Returns how many tokens of a draft are expected to be right, and the draft."""
        expected, share, tokens = 0.0, 1.0, list[int]()
        longest = min(gamma, self._factor * length)
        while len(tokens) < longest and (step := texts.likeliest(state)) is not None:
            state, token, part = step
            share *= part
            if share < self._min_probability:
                break
            tokens.append(token)
            expected += share
        return expected, tokens

    def _follow(self, text: Tokens, source: Tokens | None) -> None:
        """Adds what is new since the last call, or everything if this is another text."""
        if self._text.shared(text) < len(self._text) or source != self._source:
            self._start_over(source)
        if self._match.past is not self._past or self._match.count != self._past.count:
            self._match = Match(self._past)
            self._match.follow(text[: len(self._text)])
        new = text[len(self._text) :]
        self._own.extend(new)
        self._match.follow(new)
        self._text = text

    def remember(self, context: Context) -> None:
        self.learn([*(context.source or ()), *context.tokens])


@final
class Past(TextMemory):
    """The texts that ended, each after what its encoder read, of at most `capacity` tokens."""

    def __init__(self, capacity: int | None = None) -> None:
        super().__init__(capacity)
        self._empty()

    def _empty(self) -> None:
        self.texts: SuffixAutomaton = SuffixAutomaton()
        self._kept: deque[list[int]] = deque()  # to build it again without the oldest
        self.count = 0
        self.tokens: int = 0

    @staticmethod
    def entry(vocab_size: int) -> Any:
        return Sequence[Annotated[int, Within(f"[0, {vocab_size})")]]

    def learn(self, entry: list[int]) -> None:
        try:
            self._add(entry)
            self.texts.count(ROOT)  # all that may be asked for, since threads share it from now on
        except BaseException:
            self._empty()  # an interruption leaves a wrong automaton
            raise

    def _add(self, text: list[int]) -> None:
        self._kept.append(text)
        self.tokens += len(text) + 1
        if self._capacity is None or self.tokens <= self._capacity:
            self.texts.extend([*text, END])
            return
        while self._kept and self.tokens > self._capacity // 2:  # half, so that it is done seldom
            self.tokens -= len(self._kept.popleft()) + 1
        self.texts = SuffixAutomaton()
        for kept in self._kept:
            self.texts.extend([*kept, END])

    @property
    def size(self) -> int:
        return len(self._kept)

    def entries(self) -> Iterable[list[int]]:
        return self._kept


@final
class Match:
    """The longest suffix of a text that occurs in earlier texts; they were `count` then."""

    def __init__(self, past: Past) -> None:
        self.past = past
        self.count: int = past.count
        self.state: int = ROOT
        self.length: int = 0

    def follow(self, tokens: list[int]) -> None:
        """Extends the text, and updates the match."""
        for token in tokens:
            self.state, self.length = self.past.texts.step(self.state, self.length, token)
