"""What pages show: parts that scripts write, and runs of `outrider compare`, cut for a reader."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.cli import main as cli
from outrider.lab.runs.files import FACTS
from outrider.lab.runs.frames import comparison
from outrider.lab.runs.run import load
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import Interval

MACHINE = ("date", "processor", "cores", "threads", "cpu_features", "load", "runs_by")


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


def compared(folder: Path, *arguments: str) -> Summary:
    """Returns the run of a folder, begun with the arguments or continued where it is unfinished."""
    folder = folder.absolute()
    exists = (folder / FACTS).is_file()
    if not exists or not load(folder).finished:
        resume = f"resume={str(exists).lower()}"
        sys.argv = ["outrider", "compare", *arguments, f"hydra.run.dir={folder}", resume]
        cli.main()
    return Summary(load(folder))


def figure(value: Interval | None, digits: int = 2) -> str:
    """Returns a figure, with its interval if it has one."""
    if value is None:
        return ""
    ends = "" if value.low is None else f" [{value.low:.{digits}f}, {value.high:.{digits}f}]"
    return f"{value.value:.{digits}f}{ends}"


def publish(run: Summary, page: Path, name: str) -> None:
    """Writes what a run found, and where, beside a page, without what is empty."""
    whole = json.loads(comparison(run))
    start, settings = whole["starts"][0], whole["settings"]
    found = {
        "versions": {**whole["identity"]["outrider"], **whole["identity"]["libraries"]},
        "machine": {name: start[name] for name in MACHINE},
        "target": {name: settings["target"].get(name) for name in ("dtype", "quantize")},
        "settings": {name: settings[name] for name in ("gamma", "max_new_tokens", "protocol")},
        "temperature": settings["sampling"]["temperature"],
        **{name: whole[name] for name in ("prompts", "finding", "over_plain", "rows")},
    }
    write_json(found, page, name)


def write_json(found: Mapping[str, Any], page: Path, name: str) -> None:
    """Writes what was measured beside a page, as runs/PAGE-NAME.json: a line for each row."""
    path = page.parent / "runs" / f"{page.stem}-{name}.json"
    path.parent.mkdir(exist_ok=True)
    text = json.dumps(_rounded(found)).replace('{"drafter": ', '\n{"drafter": ')
    path.write_text(f"{text}\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    """Returns a plain value with six digits of each fraction, and without what is empty.

    With so many, another rounding, to the two decimals of a page, hardly ever gives another figure.
    """
    if isinstance(value, dict):
        inner = {name: _rounded(it) for name, it in value.items()}
        return {name: it for name, it in inner.items() if it not in (None, [], {})}
    if isinstance(value, list):
        return [_rounded(it) for it in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
