"""The table of low precision, in Markdown."""

from collections.abc import Sequence
from statistics import median
from textwrap import wrap
from typing import Any

import torch

DTYPES = ("bfloat16", "float32")
REFERENCE, PLAIN = "generate", "plain"

HEADINGS = (
    "text", "differs from `generate`'s", "from `plain`'s", "first at token", "units apart",
    "in float32", "float32 texts that differ",
)  # fmt: skip


def page_lines(records: Sequence[dict[str, Any]], moves: float) -> list[str]:
    """Returns the table and what explains it; only the table if there are no bfloat16 texts.

    moves: by how much logits of the packed model move with the size of a pass.
    """
    if all(record["dtype"] != DTYPES[0] for record in records):
        return _table(records)
    text = (
        f"{_summary(records)} Outrider's packed model, reading sixteen tokens 2, 4, 8 or 16 at a"
        f" time instead of one by one, moves a logit by up to {moves:.2g}."
    )
    return [*_table(records), "", *wrap(text, width=115)]


def _cells(partings: Sequence[dict[str, Any] | None]) -> list[str]:
    """Returns where texts part, and how near the two logits are there: the median and the most."""
    apart = [parting for parting in partings if parting is not None]
    if not apart:
        return ["", "", ""]
    positions = sorted(parting["position"] for parting in apart)
    units = [abs(parting["units"]) for parting in apart]
    exact = [abs(parting["float32_gap"]) for parting in apart]
    return [
        f"{median(positions):.0f} ({positions[0]} to {positions[-1]})",
        f"{median(units):.0f} ({max(units):.0f})",
        f"{median(exact):.2f} ({max(exact):.2f})",
    ]


def _table(records: Sequence[dict[str, Any]]) -> list[str]:
    """Returns the table of all modes; without float32 texts it has no column for them."""
    columns = len(HEADINGS) - all(record["dtype"] != DTYPES[1] for record in records)
    lines = [f"| {' | '.join(HEADINGS[:columns])} |", "|---" * columns + "|"]
    for mode in [REFERENCE, *records[0][REFERENCE]]:
        low, high = ([record for record in records if record["dtype"] == dtype] for dtype in DTYPES)
        row = [
            f"`{mode}`" if mode == REFERENCE else mode,
            _differing(low, REFERENCE, mode),
            _differing(low, PLAIN, mode),
            *_cells([record[REFERENCE].get(mode) for record in low]),
            _differing(high, REFERENCE, mode),
        ]
        lines.append(f"| {' | '.join(row[:columns])} |")
    return lines


def _differing(records: Sequence[dict[str, Any]], base: str, mode: str) -> str:
    """Returns how many texts of a mode differ from those of another."""
    if mode == base or not records:
        return ""
    return f"{sum(record[base][mode] is not None for record in records)} of {len(records)}"


def _summary(records: Sequence[dict[str, Any]]) -> str:
    """Returns how near the two best bfloat16 logits are, and how far another pass moves them."""
    rows = [record["top_two"] for record in records if record["dtype"] == "bfloat16"]
    gaps = torch.tensor([gap for row in rows for gap in row["gaps"]])
    moved = torch.tensor([move for row in rows for move in row["moved"]])
    near = [f"{100 * (gaps <= size).double().mean():.1f} %" for size in (0, 1, 2)]
    usual, most = moved.double().quantile(torch.tensor([0.5, 0.99]).double()).tolist()
    return (
        f"At the {len(gaps):,} tokens of `generate`'s bfloat16 texts, the two best logits are equal"
        f" at {near[0]}, at most one unit apart at {near[1]} and two at {near[2]}. transformers"
        " itself, reading the same text in one pass instead of token by token, moves their distance"
        f" by {usual:.0f} units in the median and by {most:.0f} at one token in a hundred."
    )
