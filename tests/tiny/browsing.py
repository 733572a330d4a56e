"""Pages in a real browser: what they log and load, and whether everybody can read them."""

from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Request


class Opener:
    """Opens pages; they must log nothing, and load nothing from elsewhere.

    ignored: what a complaint may contain.
    """

    def __init__(self, browser: Any, ignored: tuple[str, ...] = ()) -> None:
        self._browser, self._ignored = browser.new_context(), ignored
        self._complaints: list[str] = []

    def __call__(self, address: str, width: int = 1280, scheme: str = "light") -> Page:
        """Opens a page at some width and in a colour scheme."""
        parts = urlsplit(address)
        own = ("data:", f"{parts.scheme}://{parts.netloc}")

        def watch(request: Request) -> None:
            if not request.url.startswith(own):
                self._complaints.append(request.url)

        page: Page = self._browser.new_page()
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=scheme)
        page.on("console", lambda message: self._complaints.append(message.text))
        page.on("pageerror", lambda error: self._complaints.append(str(error)))
        page.on("request", watch)
        page.goto(address)
        return page

    def enter(self, address: str) -> Page:
        """Opens the pages of a server as its printed address does."""
        page = self(f"{address}?token=secret")
        page.wait_for_url(address)
        return page

    def close(self) -> None:
        self._browser.close()
        left = [
            line for line in self._complaints if not any(word in line for word in self._ignored)
        ]
        assert left == [], left


def cookie(address: str) -> str:
    """Returns the cookie that a server has given a browser for the token `secret`."""
    return f"outrider-{urlsplit(address).port}=secret"


def assert_fits_and_is_accessible(page: Page) -> None:
    """Asserts that a page is no wider than the window, and that axe finds nothing serious, on a
    light screen and on a dark phone.
    """
    shown_as: tuple[Any, ...] = ((1280, "light"), (400, "dark"))
    for width, scheme in shown_as:
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=scheme)
        shown = page.evaluate("document.documentElement.scrollWidth")
        assert shown <= width, f"{shown} pixels wide at {width}"
        problems = Axe().run(page).response["violations"]
        serious = [p for p in problems if p["impact"] in ("serious", "critical")]
        assert serious == [], serious
