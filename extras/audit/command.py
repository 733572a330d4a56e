"""`outrider audit`: whether a server keeps its model's distribution when it drafts."""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from jinja2 import Environment, PackageLoader
from rich.box import SIMPLE_HEAD
from rich.progress import Progress
from rich.table import Table

from outrider.base.errors import ConfigError, OutriderError, require
from outrider.base.folders import write_whole
from outrider.base.http import without_secrets
from outrider.base.interruption import advising
from outrider.base.terminal import plain, print_json, remark, remarks, results
from outrider.cli.reports import chosen_reports, following
from outrider.contract.sampling import Sampling
from outrider.data.prompts import without_tools
from outrider.extras.audit.audit import LISTED, Auditor
from outrider.extras.audit.client import Client, Request
from outrider.extras.audit.evidence import ENOUGH
from outrider.extras.audit.expected import Expected, FromLogprobs, FromTarget
from outrider.extras.audit.result import NEVER, Result
from outrider.extras.audit.served import REPORT, Kept, OpenAIClient
from outrider.extras.audit.settings import Audit
from outrider.extras.audit.tasks import TaskResult, audit_task, items_of
from outrider.extras.audit.texts import compared, written_in
from outrider.plugins.config import build
from outrider.plugins.reading import plain_settings

HEADINGS = ("kind of request", "texts", "odds against it", "would have shown", "result")

FAULTY = ("broken", "changed")
"""The verdicts of a fault."""


def audit(settings: Audit) -> None:
    """Prints the verdict and the evidence, and writes them in Hydra's run dir.

    Raises `OutriderError` if the server is broken, a task's score changed, or texts differ by more
    than rounding.
    """
    folder = Path(HydraConfig.get().runtime.output_dir)
    if settings.texts:
        _audit_texts(settings, folder)
        return
    require(settings.url is not None, "url", None, "a server's address, or texts A.jsonl B.jsonl")
    reports, kept = chosen_reports(settings.reports), Kept(folder)
    addresses = {"url": settings.url, "baseline": settings.baseline}
    how: Any = {name: getattr(settings, name) for name in ("model", "logprobs", "key", "patience")}
    clients = [OpenAIClient(url, kept=kept, **how) for url in addresses.values() if url is not None]
    run = _prepared(settings, *clients)
    with (
        following(reports, folder, plain_settings(settings)),
        advising(kept.advice),
        Progress(console=remarks()) as progress,
    ):
        bar = progress.add_task("requests", total=settings.requests)
        result = run(settings.requests, lambda done: progress.update(bar, completed=done))
        reports.log(_figures(result), result.requests)
    sources = {name: url and without_secrets(url) for name, url in addresses.items()}
    content = write(result, folder, sources | {"task": settings.task})
    if isinstance(result, Result):
        results().print(_table(result))
        remark(folder / "audit.html", stderr=False)
    _tell(content, f"{settings.task or sources['url']}: {result.line}", result.verdict in FAULTY)


def _tell(content: str, line: str, is_fault: bool) -> None:
    print_json(content)
    if is_fault:
        raise OutriderError(line)
    results().print(plain(line), soft_wrap=True)


def _figures(result: Result | TaskResult) -> dict[str, float]:
    """Returns the numbers of a result, and whether it is a fault."""
    facts = asdict(result)
    facts |= {f"{each['name']}/evidence": each["growth"] for each in facts.pop("findings", ())}
    numbers = {name: it for name, it in facts.items() if isinstance(it, int | float)}
    return numbers | {"broken": float(result.verdict in FAULTY)}


def _audit_texts(settings: Audit, folder: Path) -> None:
    require(len(settings.texts) == 2, "texts", settings.texts, "two files")
    target = None if settings.target is None else build(settings.target)
    mine, theirs = map(written_in, settings.texts)
    found = compared(mine, theirs, target, tie=settings.tie, chat=settings.chat)
    headings = ("text", "token", "first file", "second file", "below the likeliest", "")
    table = Table(*headings, title=f"{len(found)} of {len(mine)} texts differ")
    for each in found:
        below = ", ".join(f"{gap:.2f}" for gap in each.below or ())
        cells = (str(each.number), str(each.place), *each.tokens, below, each.verdict)
        table.add_row(*map(plain, cells))
    results().print(table)
    content = json.dumps([asdict(each) for each in found], indent=1) + "\n"
    write_whole(folder / REPORT, content)
    remark(folder / REPORT, stderr=False)
    counts = Counter(each.verdict for each in found)
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "none"
    _tell(content, f"{settings.texts[0]}: differences: {said}", counts["fault"] > 0)


def _prepared(
    settings: Audit, client: Client, baseline: Client | None = None
) -> Callable[..., Result | TaskResult]:
    """Returns what audits with so many requests, and reports how many were sent."""
    how: Any = {"level": settings.level, "tie": settings.tie}
    if settings.task is not None:
        if baseline is None:
            raise ConfigError("baseline=None: expected the engine without drafts, for a task")
        sampling = Sampling(temperature=settings.temperature)
        items = items_of(settings.task, settings.max_new_tokens, sampling)
        return partial(audit_task, client, baseline, items, **how)
    target = None if settings.target is None else build(settings.target)
    expected: Expected | None = None if target is None else FromTarget(target)
    if expected is None and baseline is None:
        others = "a baseline or a target"
        require(settings.logprobs > 0, "logprobs", 0, f"some, or {others}")
        is_judged = LISTED not in settings.skip
        require(is_judged, "skip", settings.skip, f"{LISTED} to be judged, or {others}")
        expected = FromLogprobs(settings.logprobs)
    requests = []
    # The same again and again tell more than many.
    for prompt in without_tools(build(settings.data))[:2]:
        asked: Any = prompt.turns[0]
        if settings.chat:
            asked = (("user", asked),)
        elif target is not None:
            asked = tuple(target.encode(asked))
        requests.append(Request(asked, settings.max_new_tokens))
    return Auditor(client, requests, expected, baseline, skip=settings.skip, **how).run


def _rows(result: Result) -> list[tuple[str, ...]]:
    """Returns by kind of request its texts, the odds against them, and what was found."""
    rows: list[tuple[str, ...]] = []
    for each in result.findings:
        least = "not the planted" if each.texts >= ENOUGH else ""
        least = least if each.least is None else f"{each.least:.2g}"
        is_odd = each.growth is None or each.growth > -math.log(result.level)
        said = each.cause if is_odd else "nothing found"
        rows.append((each.name, str(each.texts), odds(each.growth), least, said))
    rows.append(("the control, which has to be found", "", odds(result.control), "", ""))
    unjudged = result.unjudged.items()
    return rows + [(name, "", "", "", f"not judged: {cause}") for name, cause in unjudged]


def odds(growth: float | None) -> str:
    """Returns how likely such evidence is, at most, where the server keeps its distribution.

    >>> odds(23.4), odds(0.5), odds(None)
    ('1 in 10^10', 'none', 'one text shows it')
    """
    if growth is None:
        return "one text shows it"
    return f"1 in 10^{growth / math.log(10):.0f}" if growth >= math.log(10) else "none"


def _table(result: Result) -> Table:
    caption = f"greedy texts that differ at a tie: {result.ties}; {NEVER}"
    table = Table(box=SIMPLE_HEAD, caption=caption)
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading == "texts" else "left")
    for row in _rows(result):
        table.add_row(*map(plain, row))
    return table


def write(result: Result | TaskResult, folder: Path, sources: Mapping[str, str | None]) -> str:
    """Writes a result's facts as JSON, which are returned, and the page of an audit of texts.

    sources: the addresses that were asked, and what else tells where the result is from.
    """
    content = json.dumps({**sources, "line": result.line, **asdict(result)}, indent=1) + "\n"
    write_whole(folder / REPORT, content)
    if isinstance(result, Result):
        loader = PackageLoader("outrider.extras.audit", ".")
        template = Environment(loader=loader, autoescape=True).get_template("page.html.jinja")
        table = {"headings": HEADINGS, "rows": _rows(result), "never": NEVER}
        write_whole(folder / "audit.html", template.render(result=result, sources=sources, **table))
    return content
