"""The part of a page that a script writes, between two comments."""

from collections.abc import Sequence
from pathlib import Path


def write_page(page: Path, part: str, lines: Sequence[str]) -> None:
    """Puts lines between the two comments that name a part of a page."""
    begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
    before, rest = page.read_text().split(begin)
    _, after = rest.split(end)
    page.write_text("\n".join([before + begin, *lines, end + after]))
