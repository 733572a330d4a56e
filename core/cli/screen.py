"""How who wrote each token is shown, and the bars of a comparison."""

from collections.abc import Iterable

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from outrider.base.terminal import remarks

STYLES = {"accepted": "underline green", "recovered": "red", "bonus": "blue", "plain": ""}
"""By who wrote a token (see `outrider.Round`), its style."""

LEGEND = ("accepted", "recovered after rejection", "bonus after a whole draft", "plain: no draft")
"""What each of `STYLES` means, as short as a line of 80 columns has room for."""


def bars() -> Progress:
    """Returns progress bars on stderr."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeRemainingColumn(), console=remarks())


def legend(names: Iterable[str] = LEGEND) -> Text:
    """Returns what tokens are by who wrote them, each in its style."""
    styled = zip(names, STYLES.values(), strict=True)
    return Text("  ").join(Text(name, style=style) for name, style in styled)
