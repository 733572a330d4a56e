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
from tiny.outcomes import ORDER
from tiny.settings import VARIANTS

BEGIN, END = "<!-- sweep -->", "<!-- end of the sweep -->"
"""What lies between these lines of a page is the sweep's; all else is written by hand."""
SIGNS = {"right": "✓", "slow draft": "✓°", "refused": "\u2013", "WRONG": "✗", "RAW": "!"}
PART = "◐"
WORDS = {
    "✓": "right", "✓°": "slow draft", PART: "partly", "\u2013": "refused", "✗": "wrong",
    "!": "error", "": "",
}  # fmt: skip
"""What stands in a cell of the sheet for each sign."""
MEANINGS = {
    "right": "the text is `generate`'s, token for token",
    "slow draft": "right, but a copy of the model, drafting for it, was not always accepted",
    "partly": "right in some settings, refused in one line in others",
    "refused": "refused in one line",
    "wrong": "another text, or an early exit that leaves nothing out",
    "error": "an exception that is not Outrider's",
}
HEADS = {  # other than the modes
    "small_lm": "draft model",
    "small_lm tree": "draft model tree",
    "lookahead_decoding": "lookahead",
}
COLUMNS = ("model", "kind", *(HEADS.get(mode, mode) for mode in MODES), "generate", "reason")
NOT_BUILT, DIFFERS = "not built", "differs from full passes"
CLASS = re.compile(r"\b[A-Z]\w*(?:For[A-Z]\w+|Model\w*|LMHead\w*|Decoder)\b")

Facts = Mapping[str, Mapping[str, Any]]
"""By row its class, its group, or why it was not built."""
Cells = Mapping[str, Sequence[Mapping[str, str]]]
"""By mode the outcomes of a row's checks."""
Row = dict[str, str]
"""A row of the sheet, by column."""


def sign(outcomes: Sequence[Mapping[str, str]]) -> str:
    """Returns the sign of a cell."""
    kinds = {outcome["outcome"] for outcome in outcomes}
    if not kinds:
        return ""
    if "refused" in kinds and kinds & {"right", "slow draft"} and not kinds & {"WRONG", "RAW"}:
        return PART
    return SIGNS[max(kinds, key=ORDER.index)]


def sheet(facts: Facts, cells: Mapping[str, Cells]) -> list[Row]:
    """Returns the rows of the sheet, sorted by kind as far as they were built."""
    rows = [_row(name, fact, cells[name]) for name, fact in facts.items() if fact]
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
    if fact.get("reason"):
        words = dict.fromkeys(COLUMNS, "")
        return words | {"model": name, "kind": NOT_BUILT, "reason": fact["reason"]}
    modes = {HEADS.get(mode, mode): WORDS[sign(cells.get(mode, ()))] for mode in MODES}
    differs = DIFFERS if fact.get("cache_differs") else ""
    row = {"model": name, "kind": fact["group"], **modes, "generate": differs}
    return row | {"reason": "; ".join(_reasons(cells))}


def _reasons(cells: Cells) -> Iterator[str]:
    """Yields each line that was given, after the modes that gave it."""
    by_line: dict[str, set[str]] = defaultdict(set)
    for mode, checks in cells.items():
        for check in checks:
            if check["outcome"] in ("WRONG", "RAW", "refused"):
                by_line[_line(check["outcome"], check["detail"])].add(mode)
    tried = {mode for mode, checks in cells.items() if checks}
    for line, modes in sorted(by_line.items()):
        named = [HEADS.get(mode, mode) for mode in MODES if mode in modes]
        yield f"{'all modes' if modes == tried else ', '.join(named)}: {line}"


def _line(outcome: str, detail: str) -> str:
    """Returns the reason in a cell, without what differs from row to row."""
    if "differs at token" in detail:
        return "The text is another."
    if detail.startswith("logits are off"):
        return "The logits of a draft are not those of full passes."
    if outcome == "RAW":
        return re.sub(r"[0-9]+", "n", CLASS.sub("…", detail))
    _, chains, reason = detail.partition("takes only chains, ")
    detail = f"… {chains}{reason}" if chains else detail
    detail = re.sub(r"model='[^']*'", "model='…'", detail)  # a temporary folder
    detail = re.sub(r"^drafter (\w+)\.?", "drafter …", CLASS.sub("…", detail))
    return re.sub(r"layers=[0-9]+", "layers=n", detail)


def _counts(rows: Sequence[Row]) -> Iterator[str]:
    """Yields how many rows came out in each way, and how many cells hold each word."""
    cells = [[row[name] for name in COLUMNS[2:-2] if row[name]] for row in rows]
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
    for (what, count), (word, meaning) in zip(left, MEANINGS.items(), strict=True):
        yield f"| {what} | {count} | {word} | {meaning} | {total[word]} |"
