"""The page of the sweep: counts, reasons, and a row for each model with a sign for each mode."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tiny.modes import MODES
from tiny.outcomes import ORDER

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
LEGEND = """\
| sign | meaning |
|---|---|
| ✓ | the text is `generate`'s, token for token |
| ✓° | so it is, but a copy of the model, drafting for the model, was not always accepted |
| ◐ | right where it runs, and refused in one line elsewhere |
| \u2013 | refused in one line |
| ✗ | wrong: another text, or an early exit that leaves nothing out |
| ! | an exception that is not Outrider's |
"""

Cells = Mapping[str, Mapping[str, Sequence[Mapping[str, str]]]]
"""By row and mode the outcomes of its checks."""


def sign(outcomes: Sequence[Mapping[str, str]]) -> str:
    """Returns the sign of a cell."""
    kinds = {each["outcome"] for each in outcomes}
    if not kinds:
        return ""
    if "refused" in kinds and kinds & {"right", "slow draft"} and not kinds & {"WRONG", "RAW"}:
        return PART
    return SIGNS[max(kinds, key=ORDER.index)]


def page(facts: Mapping[str, Mapping[str, Any]], cells: Cells, versions: str) -> str:
    """Returns the page in Markdown.

    facts: of each row its class, its group, or why it was not built.
    """
    facts = {name: fact for name, fact in facts.items() if fact}
    built = {name for name, fact in facts.items() if not fact.get("reason")}
    total = Counter(
        kind for name in built for mode in cells[name] for kind in [sign(cells[name][mode])]
    )
    clean = [name for name in built if not {"✗", "!"} & {sign(x) for x in cells[name].values()}]
    lines = [
        "# Models",
        "",
        "Every causal and sequence-to-sequence class of transformers, built tiny with random",
        "weights in float32, with windows of 8 tokens and texts of up to 64. In each mode Outrider",
        "writes the text of transformers' own `generate(do_sample=False)`, or refuses in one line.",
        f"Written by `tests/evidence/architectures.py` ({versions}).",
        "",
        f"- Rows: {len(facts)}; built: {len(built)}; not built: {len(facts) - len(built)}.",
        f"- Rows in which every cell is right or refused: {len(clean)}.",
        f"- Cells: {sum(total.values())}; "
        + "; ".join(f"{total[mark]} {name}" for mark, name in _names())
        + ".",
        "- Tensor parallel: not run here, see `tests/runtime/test_ranks.py`.",
        "",
        LEGEND,
    ]
    lines += [*_tables(facts, cells), *_reasons(cells), *_not_built(facts)]
    return "\n".join(lines).rstrip() + "\n"


def _names() -> Iterator[tuple[str, str]]:
    yield from ((SIGNS[name], name) for name in ORDER)
    yield PART, "right in part, refused in part"


def _tables(facts: Mapping[str, Mapping[str, Any]], cells: Cells) -> Iterator[str]:
    groups = defaultdict(list)
    for name, fact in facts.items():
        if not fact.get("reason"):
            groups[fact["group"]].append(name)
    for group in sorted(groups):
        yield from (f"## {group}", "")
        yield f"| model | {' | '.join(HEADS.get(mode, mode) for mode in MODES)} |"
        yield "|---|" + ":-:|" * len(MODES)
        for name in groups[group]:
            signs = [sign(cells[name].get(mode, ())) for mode in MODES]
            yield f"| {name} | {' | '.join(signs)} |"
        yield ""


def _reasons(cells: Cells) -> Iterator[str]:
    for outcome, head in (("WRONG", "Wrong"), ("RAW", "Exceptions"), ("refused", "Refused")):
        by_line: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for line, mode, name in sorted(set(_bad(cells, outcome))):
            by_line[line][mode].append(name)
        if by_line:
            yield from (f"## {head}", "")
        for line, by_mode in by_line.items():
            yield f"- {line}"
            by_rows: dict[str, list[str]] = defaultdict(list)
            for mode, names in by_mode.items():
                by_rows[", ".join(names)].append(mode)
            yield from (f"  - {', '.join(modes)}: {names}" for names, modes in by_rows.items())
        if by_line:
            yield ""


def _bad(cells: Cells, outcome: str) -> Iterator[tuple[str, str, str]]:
    """Yields the line, mode and row of every check that came out so."""
    for name, modes in cells.items():
        for mode, checks in modes.items():
            for check in checks:
                if check["outcome"] == outcome:
                    yield _line(outcome, check["detail"]), mode, name


def _line(outcome: str, detail: str) -> str:
    """Returns what is said of a cell, without what differs from row to row."""
    if "differs at token" in detail:
        return "The text is another."
    if detail.startswith("logits are off"):
        return "The logits of a draft are not those of full passes."
    names = re.sub(r"\b[A-Z]\w*(?:For[A-Z]\w+|Model\w*|LMHead\w*|Decoder)\b", "…", detail)
    return f"`{re.sub(r'[0-9]+', 'n', names) if outcome == 'RAW' else names}`"


def _not_built(facts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield from ("## Not built", "", "| model | why |", "|---|---|")
    for name, fact in facts.items():
        if fact.get("reason"):
            yield f"| {name} | {fact['reason'].replace('|', '/')} |"
    yield ""
