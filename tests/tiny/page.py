"""docs/models.csv, the sheet of the sweep: a row for each model, a word for each mode."""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

import pages

from tiny.models import DECODERS, ENCODER_DECODERS
from tiny.modes import MODES
from tiny.outcomes import PARTLY, Outcome, word
from tiny.settings import VARIANTS

BEGIN, END = "<!-- sweep -->", "<!-- end of the sweep -->"
"""What lies between these lines of a page is the sweep's; all else is written by hand."""
MEANINGS = {
    "right": "the text is `generate`'s, token for token",
    "slow draft": "right, but a copy of the model, drafting for it, was not always accepted",
    PARTLY: "right in some settings, refused in one line in others",
    "refused": "refused in one line",
    "wrong": "another text, or an early exit that leaves nothing out",
    "error": "an exception that is not Outrider's",
}
COLUMNS = ("model", "kind", *MODES, "generate", "reason")
NOT_BUILT, DIFFERS = "not built", "differs from full passes"
CLASS = re.compile(r"\b[A-Z]\w*(?:For[A-Z]\w+|Model\w*|LMHead\w*|Decoder)\b")

Cells = Mapping[str, Sequence[Outcome]]
"""By mode the outcomes of a row's checks."""
Row = dict[str, str]
"""A row of the sheet, by column."""


def sheet(results: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """Returns the rows of the sheet, sorted by kind as far as they were built.

    results: by row its `cells`, and its `facts`: its group, or why it was not built.
    """
    rows = [_row(name, it["facts"], it["cells"]) for name, it in results.items() if it["facts"]]
    return sorted(rows, key=lambda row: (row["kind"] == NOT_BUILT, row["kind"]))


def written(rows: Sequence[Row]) -> str:
    """Returns the rows as the text of a CSV file."""
    file = StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def read(text: str) -> list[Row]:
    """Returns the rows of a CSV file."""
    return list(csv.DictReader(StringIO(text)))


def placed(page: str, rows: Sequence[Row], versions: str) -> str:
    """Returns a page with the counts of the sheet between its two lines, and the rest as it was.

    Raises:
        ValueError: the page has no lines between which the sweep's part goes.
    """
    text = "\n".join([f"Written by `tests/tiny/sweep.py` ({versions}).", *_counts(rows)])
    return pages.placed(page, text, BEGIN, END)


def _row(name: str, fact: Mapping[str, Any], cells: Cells) -> Row:
    row = dict.fromkeys(COLUMNS, "") | {"model": name}
    if fact.get("reason"):
        return row | {"kind": NOT_BUILT, "reason": fact["reason"]}
    row |= {mode: word(checks) for mode, checks in cells.items()}
    differs = DIFFERS if fact.get("cache_differs") else ""
    return row | {"kind": fact["group"], "generate": differs, "reason": "; ".join(_reasons(cells))}


def _reasons(cells: Cells) -> Iterator[str]:
    """Yields each line that was given, after the modes that gave it."""
    by_line: dict[str, set[str]] = defaultdict(set)
    for mode, checks in cells.items():
        for check in checks:
            if check["outcome"] in ("wrong", "error", "refused"):
                by_line[_line(check["outcome"], check["detail"])].add(mode)
    tried = {mode for mode, checks in cells.items() if checks}
    for line, modes in sorted(by_line.items()):
        named = ", ".join(mode for mode in MODES if mode in modes)
        yield f"{'all modes' if modes == tried else named}: {line}"


def _line(outcome: str, detail: str) -> str:
    """Returns the reason in a cell, without what differs from row to row."""
    if "differs at token" in detail:
        return "The text is another."
    if detail.startswith("logits are off"):
        return "The logits of a draft are not those of full passes."
    if outcome == "error":
        return re.sub(r"[0-9]+", "n", CLASS.sub("…", detail))
    _, chains, reason = detail.partition("takes only chains, ")
    detail = f"… {chains}{reason}" if chains else detail
    detail = re.sub(r"model='[^']*'", "model='…'", detail)  # a temporary folder
    detail = re.sub(r"^drafter (\w+)\.?", "drafter …", CLASS.sub("…", detail))
    return re.sub(r"layers=[0-9]+", "layers=n", detail)


def _counts(rows: Sequence[Row]) -> Iterator[str]:
    """Yields how many rows came out in each way, and how many cells hold each word."""
    cells = [[row[name] for name in MODES if row[name]] for row in rows]
    built = [set(words) for row, words in zip(rows, cells, strict=True) if row["kind"] != NOT_BUILT]
    bad = sum(bool(words & {"wrong", "error"}) for words in built)
    full = sum(words <= {"right", "slow draft"} for words in built)
    refused = sum(words == {"refused"} for words in built)
    tried = f"{len(set(DECODERS.values()))} causal and {len(set(ENCODER_DECODERS.values()))}"
    variants = sum(row["model"] in VARIANTS for row in rows)
    total = Counter(word for words in cells for word in words)
    yield from (
        *(f"They are {tried} sequence-to-sequence classes, {variants} of their variants.", ""),
        *("| models | | cells | | |", "|---|--:|---|---|--:|"),
    )
    left = (
        ("tried", len(rows)),
        ("right in every mode", full),
        ("right in some, refused in one line in others", len(built) - refused - bad - full),
        ("refused in every mode, when the target is made", refused),
        ("not built", len(rows) - len(built)),
        ("wrong, or an exception that is not Outrider's", bad),
    )
    for (what, count), (name, meaning) in zip(left, MEANINGS.items(), strict=True):
        yield f"| {what} | {count} | {name} | {meaning} | {total[name]} |"
