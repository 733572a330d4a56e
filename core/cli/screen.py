"""How who wrote each token is shown."""

from collections.abc import Iterable

from rich.text import Text

STYLES = {"accepted": "underline green", "recovered": "red", "bonus": "blue", "plain": ""}
"""By who wrote a token (see `outrider.Round`), its style."""

LEGEND = ("accepted", "recovered after rejection", "bonus after a whole draft", "plain: no draft")
"""What each of `STYLES` means, as short as a line of 80 columns has room for."""


def legend(names: Iterable[str] = LEGEND) -> Text:
    """Returns what tokens are by who wrote them, each in its style."""
    styled = zip(names, STYLES.values(), strict=True)
    return Text("  ").join(Text(name, style=style) for name, style in styled)
