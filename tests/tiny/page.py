"""The page of the sweep: counts, reasons, and a row for each model with a sign for each mode."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tiny import page_parts
from tiny.models import DECODERS, ENCODER_DECODERS
from tiny.modes import MODES
from tiny.outcomes import ORDER
from tiny.settings import VARIANTS

BEGIN, END = "<!-- sweep -->", "<!-- end of the sweep -->"
"""What lies between these lines of a page is the sweep's; all else is written by hand."""
SIGNS = {"right": "✓", "slow draft": "✓°", "refused": "\u2013", "WRONG": "✗", "RAW": "!"}
PART = "◐"
HEADS = {  # shorter than the modes
    "small_lm": "draft model",
    "small_lm tree": "draft model, tree",
    "lookahead_decoding": "lookahead",
    "custom_generate": "`custom_generate`",
    "self_sparse": "self-sparse",
    "write": "`write`",
}
MEANINGS = {
    "✓": "right: the text is `generate`'s, token for token",
    "✓°": "right, but a copy of the model, drafting for the model, was not always accepted",
    PART: "right in some settings, refused in one line in others",
    "\u2013": "refused in one line",
    "✗": "wrong: another text, or an early exit that leaves nothing out",
    "!": "an exception that is not Outrider's",
}
DIFFERING = (
    "Of these, `generate` writes another text than full passes without a cache do. RoBERTa's kind"
    " counts positions from behind the padding id, `generate` from 0; others are refused because"
    " what they see depends on the passes. Either text counts as right."
)
CLASS = re.compile(r"\b[A-Z]\w*(?:For[A-Z]\w+|Model\w*|LMHead\w*|Decoder)\b")

Facts = Mapping[str, Mapping[str, Any]]
"""By row its class, its group, or why it was not built."""
Cells = Mapping[str, Mapping[str, Sequence[Mapping[str, str]]]]
"""By row and mode the outcomes of its checks."""


def sign(outcomes: Sequence[Mapping[str, str]]) -> str:
    """Returns the sign of a cell."""
    kinds = {outcome["outcome"] for outcome in outcomes}
    if not kinds:
        return ""
    if "refused" in kinds and kinds & {"right", "slow draft"} and not kinds & {"WRONG", "RAW"}:
        return PART
    return SIGNS[max(kinds, key=ORDER.index)]


def placed(page: str, table: str) -> str:
    """Returns a page with the sweep's part replaced, and the rest of it as it was.

    Raises:
        ValueError: the page has no lines between which the sweep's part goes.
    """
    return page_parts.placed(page, table, BEGIN, END)


def table(facts: Facts, cells: Cells, versions: str) -> str:
    """Returns the sweep's part of the page, in Markdown."""
    facts = {name: fact for name, fact in facts.items() if fact}
    lines = [f"Written by `evidence/architectures.py` ({versions}).", ""]
    lines += [*_counts(facts, cells), *_signs(facts, cells), *_tables(facts, cells)]
    lines += [*_reasons(cells), *_differing(facts), *_not_built(facts)]
    return "\n".join(lines).rstrip()


def _counts(facts: Facts, cells: Cells) -> Iterator[str]:
    """Yields how many rows came out in each way."""
    built = [name for name, fact in facts.items() if not fact.get("reason")]
    signs = {name: {sign(checks) for checks in cells[name].values() if checks} for name in built}
    refused = sum(signs[name] == {SIGNS["refused"]} for name in built)
    bad = sum(bool(signs[name] & {"✗", "!"}) for name in built)
    full = sum(signs[name] <= {"✓", "✓°"} for name in built)
    part = len(built) - refused - bad - full
    variants = sum(name in VARIANTS for name in facts)
    tried = (
        f"{_classes(DECODERS)} causal and {_classes(ENCODER_DECODERS)} sequence-to-sequence classes"
    )
    yield from (
        "| rows | |",
        "|---|--:|",
        f"| tried: {tried}, {variants} of their variants | {len(facts)} |",
        f"| right in every mode | {full} |",
        f"| right in some modes, refused in [one line](#refused) in the others | {part} |",
        f"| refused in every mode, when the target is made | {refused} |",
        f"| [not built](#not-built) | {len(facts) - len(built)} |",
        f"| wrong, or ended by an exception that is not Outrider's | {bad} |",
        "",
    )


def _classes(mapping: Mapping[str, str]) -> int:
    return len(set(mapping.values()))


def _signs(facts: Facts, cells: Cells) -> Iterator[str]:
    """Yields what the signs of the cells mean, and how many there are of each."""
    total = Counter(
        sign(outcomes)
        for name, fact in facts.items()
        if not fact.get("reason")
        for outcomes in cells[name].values()
    )
    yield from ("| cell | meaning | count |", "|---|---|--:|")
    yield from (f"| {mark} | {meaning} | {total[mark]} |" for mark, meaning in MEANINGS.items())
    yield ""


def _tables(facts: Facts, cells: Cells) -> Iterator[str]:
    groups = defaultdict(list)
    for name, fact in facts.items():
        if not fact.get("reason"):
            groups[fact["group"]].append(name)
    for group in sorted(groups):
        yield from (f"### {group}", "")
        yield f"| model | {' | '.join(HEADS.get(mode, mode) for mode in MODES)} |"
        yield "|---|" + ":-:|" * len(MODES)
        for name in groups[group]:
            signs = [sign(cells[name].get(mode, ())) for mode in MODES]
            yield f"| {name} | {' | '.join(signs)} |"
        yield ""


def _reasons(cells: Cells) -> Iterator[str]:
    """Yields the lines that were given, and after each the modes and rows that gave it."""
    for outcome, head in (("WRONG", "Wrong"), ("RAW", "Exceptions"), ("refused", "Refused")):
        by_line: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for line, mode, name in _lines(cells, outcome):
            by_line[line][name].add(mode)
        if by_line:
            yield from (f"### {head}", "")
        for line in sorted(by_line):
            yield f"- {line}"
            by_modes: dict[str, list[str]] = defaultdict(list)
            for name, modes in by_line[line].items():
                tried = {mode for mode, checks in cells[name].items() if checks}
                by_modes[_named(modes, tried)].append(name)
            yield from (f"  - {modes}: {', '.join(names)}" for modes, names in by_modes.items())
        if by_line:
            yield ""


def _named(modes: set[str], tried: set[str]) -> str:
    if modes == tried:
        return "all modes"
    return ", ".join(HEADS.get(mode, mode) for mode in MODES if mode in modes)


def _lines(cells: Cells, outcome: str) -> Iterator[tuple[str, str, str]]:
    """Yields the line, mode and row of every check with such an outcome."""
    for name, modes in cells.items():
        for mode, checks in modes.items():
            for check in checks:
                if check["outcome"] == outcome:
                    yield _line(outcome, check["detail"]), mode, name


def _line(outcome: str, detail: str) -> str:
    """Returns the reason in a cell, without what differs from row to row."""
    if "differs at token" in detail:
        return "The text is another."
    if detail.startswith("logits are off"):
        return "The logits of a draft are not those of full passes."
    if outcome == "RAW":
        return f"`{re.sub(r'[0-9]+', 'n', CLASS.sub('…', detail))}`"
    _, chains, reason = detail.partition("takes only chains, ")
    detail = f"… {chains}{reason}" if chains else detail
    detail = re.sub(r"model='[^']*'", "model='…'", detail)  # a temporary folder
    detail = re.sub(r"^drafter (\w+)\.?", "drafter …", CLASS.sub("…", detail))
    return f"`{re.sub(r'layers=[0-9]+', 'layers=n', detail)}`"


def _differing(facts: Facts) -> Iterator[str]:
    names = [name for name, fact in facts.items() if fact.get("cache_differs")]
    if names:
        yield from ("### `generate` and full passes", "", DIFFERING, "", ", ".join(names), "")


def _not_built(facts: Facts) -> Iterator[str]:
    yield from ("### Not built", "", "| model | why |", "|---|---|")
    for name, fact in facts.items():
        if fact.get("reason"):
            yield f"| {name} | {fact['reason'].replace('|', '/')} |"
    yield ""
