"""The table of a comparison, for the terminal."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.lab.compare import Row

COLUMNS = {
    "alpha": ("alpha", 3),
    "coverage": ("cover-\nage", 2),
    "alpha_tested": ("alpha\ntested", 3),
    "acceptance_rate": ("accept.\nrate", 3),
    "block_efficiency": ("tokens\na call", 2),
    "tokens_per_second": ("tokens\na second", 1),
    "speedup": ("speed-\nup", 2),
}


def table(rows: Sequence[Row], title: str) -> Table:
    """Returns the table of `rows`; under a lossy rule it says so."""
    lossy = any(not row.lossless for row in rows)
    caption = "LOSSY: the rule does not keep the target's law" if lossy else None
    shown = Table(title=title, caption=caption, box=SIMPLE_HEAD, collapse_padding=True)
    shown.add_column("drafter", no_wrap=True)
    for heading, _ in COLUMNS.values():
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        cells = (getattr(row, name) for name in COLUMNS)
        digits = (digits for _, digits in COLUMNS.values())
        shown.add_row(
            row.drafter,
            *(
                "-" if cell is None else f"{cell:.{n}f}"
                for cell, n in zip(cells, digits, strict=True)
            ),
        )
    return shown
