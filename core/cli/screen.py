"""The progress of a comparison, with the text that is being written above the bars."""

from collections.abc import Iterable
from time import perf_counter
from typing import final

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from outrider.base.terminal import plain, remarks
from outrider.contract.round import Round
from outrider.lab.measuring.variants import PLAIN_NAME, Question

STYLES = {"accepted": "underline green", "recovered": "red", "bonus": "blue", "plain": ""}
"""By who wrote a token (see `outrider.Round`), its style."""

LEGEND = ("accepted", "recovered after rejection", "bonus after a whole draft", "plain: no draft")
"""What each of `STYLES` means, as short as a line of 80 columns has room for."""

LINES = 6
"""How many lines of a text are shown, its last ones."""

PAUSE = 0.1
"""The least seconds between two updates of a text."""


@final
class Screen(Progress):
    """Progress bars on stderr, and above them each text in colours while it is written.

    The texts are drawn between rounds, which are timed, and never during one.

    live: whether to show the texts, if stderr is a terminal.
    """

    def __init__(self, *, live: bool) -> None:
        console = remarks()
        self.live_texts: bool = live and console.is_terminal
        self._text = LiveText()
        self._drawn = 0.0
        columns = (TextColumn("{task.description}", markup=False), BarColumn())
        super().__init__(
            *columns,
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            auto_refresh=not self.live_texts,
            transient=self.live_texts,
        )

    def watch(self, name: str, question: Question, round: Round) -> None:
        """Shows the next round of a text; see `outrider.lab.measuring.trial.Watch`."""
        self._text.add(name, question, round)
        if round.stop is not None or perf_counter() - self._drawn >= PAUSE:
            self.refresh()
            self._drawn = perf_counter()

    def get_renderables(self) -> Iterable[RenderableType]:
        """Returns what rich draws: the text, if there is one, and the bars."""
        if self._text.by:
            yield self._text
        yield from super().get_renderables()


@final
class LiveText:
    """A text that grows, with its tokens per second beside those of plain decoding.

    by: who writes it; empty before the first text.
    """

    def __init__(self) -> None:
        self.by: str = ""
        self._key: object = None
        self._text = Text()
        self._tokens, self._seconds = 0, 0.0
        self._plain_tokens, self._plain_seconds = 0, 0.0

    def add(self, name: str, question: Question, round: Round) -> None:
        """Adds a round, to a new text if it is the first of one."""
        key = (name, question.prompt, question.turn)
        if key != self._key:
            self._key, self._text = key, Text()
            self._tokens, self._seconds = 0, 0.0
            self.by = f"prompt {question.prompt}, {name}"
        for piece, origin in zip(round.pieces, round.origins, strict=True):
            self._text.append_text(plain(piece, STYLES[origin]))
        tokens, seconds = len(round.tokens), sum(round.seconds.values())
        self._tokens, self._seconds = self._tokens + tokens, self._seconds + seconds
        if name == PLAIN_NAME:
            self._plain_tokens += tokens
            self._plain_seconds += seconds
        if round.stop is not None:
            self._key = None  # the next round begins a text, even of the same question

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Returns a frame of a fixed height, with the last lines of the text."""
        width = max(1, options.max_width - 4)  # without the frame
        lines = self._text.wrap(console, width)[-LINES:]
        speed = f"{self._tokens / self._seconds:.1f} tokens/s" if self._seconds else ""
        if self._plain_seconds:
            speed += f", plain {self._plain_tokens / self._plain_seconds:.1f}"
        title = plain(f"{self.by}: {speed}")
        yield Panel(Text("\n").join(lines), title=title, subtitle=legend(STYLES), height=LINES + 2)


def legend(names: Iterable[str] = LEGEND) -> Text:
    """Returns what tokens are by who wrote them, each in its style."""
    styled = zip(names, STYLES.values(), strict=True)
    return Text("  ").join(Text(name, style=style) for name, style in styled)
