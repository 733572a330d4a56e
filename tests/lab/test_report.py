"""The page in a real browser: it needs no other file, and is legible on a phone too."""

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

from outrider.lab.report import labels, write_report
from outrider.lab.summary import Summary
from outrider.verifiers.lenient import Lenient

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        # Without one of the system's, Playwright starts its own, or says how to get it.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield browser
        browser.close()


@pytest.fixture
def opened(
    browser: Any, run_in: Callable[..., Any], tmp_path: Path
) -> Iterator[Callable[..., Page]]:
    """Opens the page of a run at some width; it must log nothing and load nothing else."""
    complaints: list[str] = []
    pages: list[Page] = []

    def go(width: int = 1280, **options: Any) -> Page:
        run = run_in(tmp_path, **options).run
        path = write_report({"": Summary(run)}, tmp_path)
        page: Page = browser.new_page(viewport={"width": width, "height": 844})
        page.on("console", lambda message: complaints.append(message.text))
        page.on("request", lambda request: complaints.append(request.url)
                if not request.url.startswith(("file:", "data:")) else None)  # fmt: skip
        page.goto(path.as_uri())
        pages.append(page)
        return page

    yield go
    for page in pages:
        page.close()
    assert complaints == []


def test_the_page_needs_no_other_file(opened: Callable[..., Page]) -> None:
    page = opened()
    images = page.evaluate("[...document.images].map(i => [i.complete, i.naturalWidth, i.alt])")
    assert len(images) >= 8
    assert all(done and width == 840 and alt for done, width, alt in images)
    source = page.content()
    assert not re.search(r"""(?:src|href)=["'](?!data:)""", source)
    assert page.locator("#rates tbody tr").count() == 3


@pytest.mark.parametrize("width", [1280, 820, 390, 320])
def test_nothing_hangs_over_or_overlaps(opened: Callable[..., Page], width: int) -> None:
    page = opened(width)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
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


def test_text_is_large_enough_on_a_phone(opened: Callable[..., Page]) -> None:
    page = opened(390)
    sizes = page.evaluate(
        """[...document.querySelectorAll('p, td, th, li, .text, figcaption')]
           .map(e => parseFloat(getComputedStyle(e).fontSize))"""
    )
    assert min(sizes) >= 12
    # A figure is 840 pixels of print at 200 to the inch, in 9 point type: 12.5 of them here.
    shown = page.evaluate("[...document.images].map(i => i.getBoundingClientRect().width)")
    assert min(shown) >= 340


def test_each_token_has_the_colour_of_who_wrote_it(opened: Callable[..., Page]) -> None:
    page = opened()
    kinds = {"accepted", "recovered", "bonus"}
    colours = {
        kind: page.evaluate(
            f"getComputedStyle(document.querySelector('.text .{kind}')).backgroundColor"
        )
        for kind in kinds
    }
    assert len(set(colours.values())) == 3
    spans = page.evaluate("[...document.querySelectorAll('.text span')].map(e => e.className)")
    assert set(spans) == kinds


def test_predictions_stand_beside_what_was_measured(opened: Callable[..., Page]) -> None:
    page = opened()
    rows = page.locator("#predictions tbody tr")
    assert rows.count() == 2
    heads = page.locator("#predictions th").all_inner_texts()
    for number in range(2):
        cells = rows.nth(number).locator("td").all_inner_texts()
        product = float(cells[heads.index("predicted")])
        for head, value in zip(heads, cells, strict=True):
            product *= float(value) if head.startswith("\u00d7") else 1
        assert product == pytest.approx(float(cells[-1]), rel=0.1)


def test_lossy_and_unfinished_runs_say_so(opened: Callable[..., Page]) -> None:
    page = opened(verifier=Lenient(0.1), temperature=1.0, protocol="decode", stop_after=8)
    banners = page.locator(".banner").all_inner_texts()
    assert any("Lossy" in banner and "lookup" in banner for banner in banners)
    assert any("Unfinished" in banner for banner in banners)


def test_markup_in_a_text_is_text(browser: Any, run_in: Callable[..., Any], tmp_path: Path) -> None:
    run = run_in(tmp_path).run
    questions = [[prompt, turn, "<b id=bad>bold</b>"] for prompt, turn, _ in run.facts["questions"]]
    summary = Summary(
        type(run)(run.folder, {**run.facts, "questions": questions}, run.measurements)
    )
    page = browser.new_page()
    page.goto(write_report({"": summary}, tmp_path).as_uri())
    assert page.locator("#bad").count() == 0
    assert "<b id=bad>bold</b>" in page.inner_text("body")
    page.close()


def test_runs_are_labelled_by_what_differs(run_in: Callable[..., Any], tmp_path: Path) -> None:
    runs = [run_in(tmp_path / str(gamma), gamma=gamma, protocol="overlap").run for gamma in (2, 4)]
    assert labels(runs[:1]) == [""]
    assert labels(runs) == ["gamma 2", "gamma 4"]
    twin = replace(runs[0], folder=tmp_path / "other" / "2")
    assert labels([runs[0], twin]) == [str(runs[0].folder), str(twin.folder)]
    names = [f"gamma 2, {runs[0].folder}", "gamma 4", f"gamma 2, {twin.folder}"]
    assert labels([*runs, twin]) == names
    edited = [
        replace(runs[0], facts={**runs[0].facts, "identity": {"echo": {"source": source}}})
        for source in ("1a", "2b")
    ]
    assert labels(edited) == ["source 1a", "source 2b"]
    path = write_report(
        {label: Summary(run) for label, run in zip(labels(runs), runs, strict=True)}, tmp_path
    )
    assert "gamma 4" in path.read_text()
