"""The colour of each token by who wrote it."""

from rich.text import Text

STYLES = {"accepted": "green", "recovered": "red", "bonus": "blue"}
"""By who wrote a token (see `outrider.Round`), its colour."""


def legend() -> Text:
    """Returns the origins of tokens, each in its colour."""
    return Text(" ").join(Text(origin, style=style) for origin, style in STYLES.items())
