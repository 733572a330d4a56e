"""A browser that starts: one of the system's, or else Playwright's own."""

import shutil
import sys

from playwright.sync_api import Browser, Error, Playwright, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking")


def launch(playwright: Playwright) -> Browser:
    """Starts the first browser that can be started.

    Raises:
        Error: there is none, or none starts.
    """
    for path in filter(None, map(shutil.which, NAMES)):
        try:
            return playwright.chromium.launch(executable_path=path, args=QUIET)
        except Error:
            continue
    return playwright.chromium.launch(args=QUIET)


if __name__ == "__main__":  # by .ci/browser
    with sync_playwright() as started:
        try:
            launch(started).close()
        except Error:
            sys.exit(1)
