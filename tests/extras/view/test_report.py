"""The report in a real browser: one file, legible on a phone, in light and dark."""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page
from tiny.browsing import Opener, assert_fits_and_is_accessible

from outrider.extras.view.page.contents import drawings, runs_page
from outrider.extras.view.report import write_report
from outrider.lab.runs.conclusion import finding_of
from outrider.lab.runs.row import in_order
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary


@pytest.fixture(scope="module")
def report(whole_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report({"": Summary(whole_run)}, tmp_path_factory.mktemp("report"))


@pytest.fixture
def opened(opener: Opener, report: Path) -> Callable[..., Page]:
    """Opens the report, or another page, for a test that changes it."""

    def go(width: int = 1280, path: Path = report, scheme: str = "light") -> Page:
        return opener(path.as_uri(), width, scheme)

    return go


@pytest.fixture(scope="module")
def shared_page(browser: Any, report: Path) -> Iterator[Page]:
    opener = Opener(browser)
    yield opener(report.as_uri())
    opener.close()


@pytest.fixture
def report_at(shared_page: Page) -> Callable[..., Page]:
    """Shows the report at some width to tests that only read it: one page, with details open."""

    def go(width: int = 1280) -> Page:
        shared_page.set_viewport_size({"width": width, "height": 844})
        shared_page.emulate_media(color_scheme="light")
        open_all(shared_page)
        return shared_page

    return go


def open_all(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")


@pytest.fixture
def sure(whole_run: Run) -> Summary:
    """A run whose times are reliable."""
    summary = Summary(whole_run)
    summary.rows = [replace(row, doubts=()) for row in summary.rows]
    return summary


def text_of(run: Run, drafter: str) -> Any:
    """Returns the first text of a drafter."""
    return next(m.decoding for m in run.measurements if m.decoding and m.drafter == drafter)


def written(summaries: dict[str, Summary], folder: Path, *, draws: bool = False) -> Path:
    """Returns the place of the page of some runs."""
    path = folder / "page.html"
    path.write_text(runs_page(summaries, drawings(summaries) if draws else {}))
    return path


def test_the_page_needs_no_other_file(report_at: Callable[..., Page], report: Path) -> None:
    page = report_at()
    assert page.locator("figure [role=application][aria-label] svg").count() >= 10
    assert not re.search(r"""\s(?:src|href)=["'](?!data:|#)""", page.content())
    assert not re.search(r"""url\((?!#)""", page.content())
    assert len(list(report.parent.glob("*.png"))) == page.locator("figure").count()
    for part, rows in (("#predictions", 2), ("#pairs-1", 1), ("#tasks-1", 3), ("#tasks-4", 3)):
        assert page.locator(f"{part} tbody tr").count() == rows, part
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_the_first_screen_answers_three_questions(
    opened: Callable[..., Page], sure: Summary, tmp_path: Path
) -> None:
    page = opened(path=written({"": sure}, tmp_path, draws=True))
    answers = page.locator(".answers div").all_inner_texts()
    found = finding_of(sure)
    assert [line.partition("\n")[2] for line in answers] == [found.first, found.size, found.chance]
    assert page.locator(".first #speedup svg").bounding_box()["y"] < 400
    assert page.locator("#rates").bounding_box()["y"] < 400
    links = page.locator("nav a").evaluate_all("links => links.map(link => link.hash)")
    assert len(links) == 8 and all(page.locator(f"h2{link}").count() == 1 for link in links)


def test_five_columns_in_rank_order_and_the_rest_behind_a_button(
    opened: Callable[..., Page], sure: Summary, tmp_path: Path
) -> None:
    page = opened(path=written({"": sure}, tmp_path, draws=True))
    heads = page.locator("#rates th[scope=col]")
    visible = [head for head in heads.all() if head.is_visible()]
    shown = [head.inner_text().strip(" ↕↓↑\xa0") for head in visible]
    assert shown == ["drafter", "speedup", "tokens per call", "accepted of tested", "alpha"]
    names = page.locator("#rates tbody th").all_inner_texts()
    assert names == [row.name for row in in_order(sure.rows)]
    page.get_by_role("button", name="Show all columns").click()
    assert all(head.is_visible() for head in heads.all()) and heads.count() > 5
    page.get_by_role("button", name="Show fewer columns").click()
    assert not heads.nth(5).is_visible()
    best = in_order(sure.rows)[0]
    sure.rows = [replace(row, target_itself=row is best) for row in sure.rows]
    page = opened(path=written({"": sure}, tmp_path, draws=True))
    assert page.locator("#rates tr.ceiling").inner_text().startswith(best.name)


def test_a_figure_answers_to_the_pointer_and_to_the_keys(opened: Callable[..., Page]) -> None:
    page = opened()
    plot, about = page.locator("#speedup .plot"), page.locator("#about.near")
    plot.focus()
    page.keyboard.press("ArrowDown")
    first = about.inner_text()
    assert re.fullmatch(r"(lookup|bigram): [01](\.\d+)?( \[.*\])?", first)
    page.keyboard.press("ArrowDown")
    assert about.inner_text() != first
    page.keyboard.press("Escape")
    assert about.count() == 0
    box = plot.locator(".note").first.bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)  # beside the mark
    assert about.inner_text() == first


def test_a_heading_sorts_the_table(opened: Callable[..., Page]) -> None:
    page = opened()
    names = page.locator("#rates tbody th")
    button = page.locator("#rates thead button").first
    button.click()
    ascending = names.all_inner_texts()
    button.click()
    assert names.all_inner_texts() == ascending[::-1]
    assert page.locator("#rates th[aria-sort]").get_attribute("aria-sort") == "descending"


def test_the_rates_can_be_downloaded(report_at: Callable[..., Page]) -> None:
    files = {
        link.inner_text(): b64decode((link.get_attribute("href") or "").partition(",")[2]).decode()
        for link in report_at().locator("a[download]").all()
    }
    rows = json.loads(files["rates.json"])["rows"]
    assert {row["drafter"] for row in rows} == {"none", "lookup", "bigram"}
    assert files["rates.md"].startswith("**3 drafters, 4 prompts")
    assert r"\toprule" in files["rates.tex"] and files["rates.csv"].startswith("drafter,")


@pytest.mark.parametrize("width", [1280, 820, 400, 320])
def test_texts_neither_overflow_nor_overlap(report_at: Callable[..., Page], width: int) -> None:
    page = report_at(width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.evaluate(
        """[...document.querySelectorAll('h1, h2, h3, p, figure, .wide, .text, summary')]
           .filter(e => !e.closest('.wide') || e.matches('.wide'))
           .map(e => [e.tagName, e.getBoundingClientRect()])
           .map(([t, b]) => [t, b.left, b.top, b.right, b.bottom])
           .filter(([t, l, u, r, d]) => r > l && d > u)"""
    )
    assert len(boxes) > 20
    for i, (tag, left, top, right, bottom) in enumerate(boxes):
        assert left >= 0 and right <= width + 1, f"{tag} hangs over at {width}"
        for other, x, y, z, w in boxes[i + 1 :]:
            apart = x >= right - 1 or z <= left + 1 or y >= bottom - 1 or w <= top + 1
            assert apart, f"{tag} and {other} overlap at {width}"


def test_axe_finds_nothing_serious(report_at: Callable[..., Page]) -> None:
    assert_fits_and_is_accessible(report_at())


def test_the_scheme_follows_the_system_and_the_button(opened: Callable[..., Page]) -> None:
    page = opened(scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.locator("#theme").click()
    assert page.locator("#theme").inner_text() == "Theme: light"
    light = page.evaluate(ground)
    assert light == "rgb(255, 255, 255)" != dark
    page.locator("#theme").click()
    assert page.evaluate(ground) == dark


def test_each_token_shows_its_origin_by_colour_and_by_line(report_at: Callable[..., Page]) -> None:
    page = report_at()
    kinds = ("accepted", "recovered", "bonus", "plain")
    for style in ("backgroundColor", "textDecoration"):
        values = {
            page.evaluate(f"getComputedStyle(document.querySelector('.rounds .{kind}')).{style}")
            for kind in kinds
        }
        assert len(values) == len(kinds)
    spans = page.evaluate("[...document.querySelectorAll('[data-token]')].map(e => e.className)")
    assert set(spans) == set(kinds)


def test_rounds_show_their_rejected_tokens(opened: Callable[..., Page], whole_run: Run) -> None:
    page = opened()
    texts = page.locator(".rounds")
    summaries = page.locator(".question summary").all_inner_texts()
    decoding = text_of(whole_run, "bigram")
    index = [text for text in summaries if "tokens per call" in text].index(
        f"bigram, {decoding.counts.block_efficiency:.2f} tokens per call"
    )
    rounds = texts.nth(index).locator(".round")
    assert rounds.count() == len(decoding.steps)
    for number, step in enumerate(decoding.steps):
        thrown = "".join(step.proposed[step.accepted :])
        struck = rounds.nth(number).locator("del").all_text_contents()
        assert "".join(struck) == thrown
    page.locator("#thrown").uncheck()
    assert not page.locator(".rounds del").first.is_visible()


def test_a_token_tells_its_probabilities(report_at: Callable[..., Page], whole_run: Run) -> None:
    page = report_at()
    overlap = next(m.overlap for m in whole_run.measurements if m.overlap and m.drafter == "bigram")
    text = page.get_by_role("region", name="The text of bigram").first
    tokens = text.locator("[data-token]")
    assert tokens.count() == len(overlap.text)
    for number, (p, q) in enumerate(zip(overlap.text_p, overlap.text_q, strict=True)):
        shown = tokens.nth(number)
        assert shown.get_attribute("data-p") == f"{p:.3g}"
        assert shown.get_attribute("data-q") == (None if q is None else f"{q:.3g}")
    tokens.first.hover()
    assert f"p {overlap.text_p[0]:.3g}" in page.locator("#about").inner_text()


def test_drafters_are_aligned_on_the_same_text(opened: Callable[..., Page], whole_run: Run) -> None:
    page = opened()
    decoding = text_of(whole_run, "lookup")
    first = page.locator(".aligned").first
    assert first.locator("> span").count() == decoding.counts.emitted
    assert first.locator("i[data-of='1'].starts").count() > 1
    marks = first.locator("i[data-of='1']")
    assert set(marks.all_inner_texts()) <= {"A", "R", "B", ""}
    page.locator("#marks-1-1").uncheck()
    assert not marks.first.is_visible()


def test_markup_in_a_text_is_text(
    opened: Callable[..., Page], whole_run: Run, tmp_path: Path
) -> None:
    questions = [
        [prompt, turn, "<b id=bad>bold</b>"] for prompt, turn, _ in whole_run.facts["questions"]
    ]
    run = replace(whole_run, facts={**whole_run.facts, "questions": questions})
    page = opened(path=written({"": Summary(run)}, tmp_path))
    assert page.locator("#bad").count() == 0
    assert "<b id=bad>bold</b>" in page.inner_text("body")
