"""The table of models that the site searches, made from docs/models.csv."""

import csv
from html import escape
from pathlib import Path

SHEET = Path(__file__).parents[1] / "models.csv"
MARK = "<!-- models.csv -->"
"""Where the table stands in docs/models.md."""

FIELDS = ("model", "kind", "generate", "reason")
"""Columns that are not modes."""


def searched(page: str) -> str:
    """Returns a page with the table in the place of `MARK`; docs/models.js filters its rows."""
    with SHEET.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    modes = [column for column in rows[0] if column not in FIELDS]
    options = "".join(f"<option>{mode}</option>" for mode in modes)
    lines = [
        '<div class="models">',
        '<input type="search" placeholder="llama, mamba, window, ..." aria-label="filter">',
        f'<select aria-label="mode"><option value="">any mode</option>{options}</select>',
        "<output></output>",
        "<table><thead><tr><th>model</th><th>kind</th><th>not right in</th></tr></thead><tbody>",
        *(_line(row, modes) for row in rows),
        "</tbody></table></div>",
    ]
    return page.replace(MARK, "\n".join(lines))


def _line(row: dict[str, str], modes: list[str]) -> str:
    right = ",".join(mode for mode in modes if row[mode] in ("right", "slow draft"))
    notes = [row["reason"], row["generate"] and f"generate {row['generate']}"]
    cells = (row["model"], row["kind"], "; ".join(filter(None, notes)))
    return f'<tr data-right="{right}">{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
