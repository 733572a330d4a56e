"""Takes pictures of the built site, and names the pages that are wider than a phone or fail axe.

Each page is opened as a file, in both colour schemes, and the search is tried.

make docs
python docs/scripts/site_screenshots.py build/site pictures
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, sync_playwright

PAGES = (
    "index",
    "tutorial/compare",
    "plugins/drafter",
    "commands",
    "settings",
    "api",
    "drafters",
    "lossless",
    "architecture",
    "glossary",
)
"""A page of each kind."""

WIDTHS = {"wide": 1280, "phone": 400}
"""By name, the widths of the window."""

HEIGHT = 1600

IS_WIDER = "document.documentElement.scrollWidth > window.innerWidth"


def main(site: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        take(browser, site, out)
        # A server sends 404.html, which finds nothing where it is opened as a file.
        pages = [path for path in sorted(site.rglob("*.html")) if path.name != "404.html"]
        faults = [*wider_than_a_phone(browser, pages), *axe_faults(browser, pages)]
        found = search(browser, site, "prompt lookup")
        browser.close()
    print(f"{len(pages)} pages, {len(faults)} faults; {found} sections are found by a search")
    sys.exit("\n".join(faults) or None)  # an empty text would be a failure, too


def take(browser: Browser, site: Path, out: Path) -> None:
    """Writes a picture of each kind of page for each width and scheme."""
    for scheme in ("light", "dark"):
        for name, width in WIDTHS.items():
            page = browser.new_page(
                viewport={"width": width, "height": HEIGHT}, color_scheme=scheme
            )
            for path in PAGES:
                page.goto((site / f"{path}.html").absolute().as_uri())
                page.screenshot(path=out / f"{path.replace('/', '-')}-{name}-{scheme}.png")
            page.close()


def wider_than_a_phone(browser: Browser, paths: Sequence[Path]) -> list[str]:
    """Returns a line for each page that has to be scrolled sideways on a phone."""
    page = browser.new_page(viewport={"width": WIDTHS["phone"], "height": 800})
    names = list[str]()
    for path in paths:
        page.goto(path.absolute().as_uri())
        if page.evaluate(IS_WIDER):
            names.append(f"{path.stem}: wider than {WIDTHS['phone']} pixels")
    page.close()
    return names


def axe_faults(browser: Browser, paths: Sequence[Path]) -> Iterator[str]:
    """Yields a line for each rule of axe that a page breaks in one of the schemes."""
    for scheme in ("light", "dark"):
        page = browser.new_page(
            viewport={"width": WIDTHS["wide"], "height": HEIGHT}, color_scheme=scheme
        )
        for path in paths:
            page.goto(path.absolute().as_uri())
            page.wait_for_load_state("networkidle")  # the theme changes a page after it loads
            for fault in Axe().run(page).response["violations"]:
                places = ", ".join(str(node["target"][0]) for node in fault["nodes"][:3])
                yield f"{path.stem}, {scheme}: {fault['id']} ({fault['impact']}): {places}"
        page.close()


def search(browser: Browser, site: Path, words: str) -> int:
    """Returns how many results the search has on a page that is opened as a file."""
    page = browser.new_page()
    page.goto((site / "index.html").absolute().as_uri())
    page.wait_for_load_state("networkidle")
    page.locator(".md-search__input").click()
    page.keyboard.type(words)
    results = page.locator(".md-search-result__article")
    results.first.wait_for()
    return results.count()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
