"""Draws docs/page-*.png: the pages of `outrider view`, from the demo on an idle machine.

outrider demo hydra.run.dir=runs/demo
python docs/scripts/screenshots.py runs
"""

import shutil
import socket
import sys
import threading
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import uvicorn
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from outrider.extras.view.page.listing import run_folders
from outrider.extras.view.play import Player, parts_of
from outrider.extras.view.server import app
from outrider.plugins.parts import make


class Shot(NamedTuple):
    """A picture of the top of a page: its size and scheme.

    drafters: writes a text with each of these two first.
    """

    name: str
    path: str
    size: tuple[int, int]
    scheme: str
    drafters: tuple[str, str] | None = None


SHOTS = (
    Shot("page-run", "runs?run={run}", (1000, 726), "light"),
    Shot("page-play", "play", (1000, 900), "light", ("hybrid", "prompt_lookup")),
)


def main(folder: Path) -> None:
    run = next(iter(run_folders([folder])))
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with socket.create_server(("127.0.0.1", 0)) as listener, sync_playwright() as playwright:
        player = Player("smollm2", make("target", "smollm2"), parts_of)
        pages = app([folder], "t", player)
        server = uvicorn.Server(uvicorn.Config(pages, log_level="warning", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        for shot in SHOTS:
            width, height = shot.size
            page = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=shot.scheme
            )
            page.goto(f"{address}?token=t")
            page.goto(address + shot.path.format(run=run))
            if shot.drafters is not None:
                for field, drafter in zip(("drafter", "beside"), shot.drafters, strict=True):
                    page.locator(f"select[name={field}]").select_option(drafter)
                page.get_by_role("button", name="Write").click()
                page.get_by_text("Done:").wait_for(timeout=300_000)
            save(page, shot)
        browser.close()
        server.should_exit = True
        thread.join()


def save(page: Page, shot: Shot) -> None:
    """Writes what the window shows, in 256 colours, so that the files are small."""
    picture = (
        Image.open(BytesIO(page.screenshot()))
        .convert("RGB")
        .quantize(256, Image.Quantize.FASTOCTREE)
    )
    path = Path(__file__).parents[1] / f"{shot.name}.png"
    picture.quantize(256, Image.Quantize.FASTOCTREE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
