"""Takes pictures of the built site at two widths, and names the pages that are wider than a phone.

make docs
python docs/scripts/site_screenshots.py build/site pictures
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

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
    "faq",
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
        wide = wider_than_a_phone(browser, sorted(site.rglob("*.html")))
        browser.close()
    if wide:
        sys.exit(f"wider than {WIDTHS['phone']} pixels: {', '.join(wide)}")


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
    """Returns the names of the pages that have to be scrolled sideways on a phone."""
    page = browser.new_page(viewport={"width": WIDTHS["phone"], "height": 800})
    names = list[str]()
    for path in paths:
        page.goto(path.absolute().as_uri())
        if page.evaluate(IS_WIDER):
            names.append(path.stem)
    page.close()
    return names


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
