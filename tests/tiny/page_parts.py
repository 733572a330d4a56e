"""The part of a page that a script writes, between two lines."""

from collections.abc import Sequence
from pathlib import Path


def placed(page: str, text: str, begin: str, end: str) -> str:
    """Returns a page with what lies between two lines replaced, and the rest of it as it was.

    Raises:
        ValueError: the page has no such lines.
    """
    before, is_begun, rest = page.partition(begin)
    _, is_ended, after = rest.partition(end)
    if not is_begun or not is_ended:
        raise ValueError(f"the page has no lines {begin} and {end}: expected one of each")
    return f"{before}{begin}\n{text}\n{end}{after}"


def heading(names: Sequence[str], texts: int = 1) -> list[str]:
    """Returns the first two lines of a table: after `texts` columns of text come figures."""
    return [f"| {' | '.join(names)} |", "|" + "---|" * texts + "---:|" * (len(names) - texts)]


def write_page(page: Path, part: str, lines: Sequence[str]) -> None:
    """Puts lines between the two comments that name a part of a page."""
    begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
    page.write_text(placed(page.read_text(), "\n".join(lines), begin, end))
