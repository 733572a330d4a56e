"""Pages of runs that were never decoded: how fast they open, and whether everybody can read them.

python evidence/pages.py --prompts 1000 --drafters 12
python evidence/pages.py --prompts 60 --drafters 8 24 --pictures pictures

A run is made up from random rounds, and reported as `outrider compare` would. Its page is opened
from a new `outrider view`, as a file, and as one that another version has kept. With pictures, it
is shown at three widths in both schemes, and axe looks at each.
"""

import argparse
import json
import random
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, sync_playwright

from outrider.extras.view.page.listing import run_folders
from outrider.extras.view.page.stored import PAGE, page_key
from outrider.extras.view.report import Page
from outrider.extras.view.server import app
from outrider.lab.measuring.measurement import Decoding, Measurement, Step
from outrider.lab.runs.export import write_json
from outrider.lab.runs.files import FACTS, LINES
from outrider.lab.runs.run import SCHEMA, Run, load
from outrider.lab.runs.schema import read_facts
from outrider.lab.runs.summary import Summary

TASKS = ("chat", "code", "math", "summary", "translation")
GAMMA, TOKENS = 5, 64
CALL = 0.02
"""Seconds of a target call."""
LIMIT = 2.0
"""The seconds that a page may take."""
WIDTHS = (400, 800, 1280)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=1000)
    parser.add_argument("--drafters", type=int, nargs="+", default=[12])
    parser.add_argument("--pictures", type=Path, help="the folder for pictures")
    parser.add_argument("--keep", type=Path, help="the folder for the runs (default: a new one)")
    options = parser.parse_args()
    slow, faults = list[str](), list[str]()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        for drafters in options.drafters:
            folder = (options.keep or Path(temporary)) / f"{options.prompts}x{drafters}"
            if not (folder / FACTS).is_file():
                write_run(folder, options.prompts, drafters)
            for name, address in addresses(folder):
                with address as at:
                    seconds = opened_in(browser, at)
                    print(f"{folder.name}, {name}: {seconds:.2f} s")
                    slow += [name] * (seconds > LIMIT)
                    if options.pictures and name == "view":
                        faults += pictured(browser, at, options.pictures / str(drafters))
        browser.close()
    print("\n".join(faults) or "axe finds nothing")
    sys.exit(bool(slow or faults))


def write_run(folder: Path, prompts: int, drafters: int) -> None:
    """Writes a run with its reports."""
    folder.mkdir(parents=True)
    rates = {"none": (0.0, 0.0)} | {
        f"drafter_{number}": (0.3 + 0.6 * number / drafters, 0.0006 * number)
        for number in range(1, drafters)
    }
    start = {"command": "outrider compare", "date": "2026-01-02T03:04:05+00:00", "cores": 2}
    facts = {
        "schema": SCHEMA,
        "settings": {"gamma": GAMMA, "sampling": {"temperature": 0.0}},
        "drafters": {name: {} for name in rates},
        "protocols": ["decode"],
        "lossless": dict.fromkeys(rates, True),
        "questions": [[str(number), 1, f"Question {number}"] for number in range(prompts)],
        "starts": [start],
    }
    (folder / FACTS).write_text(json.dumps(facts))
    chance = random.Random(0)
    with (folder / LINES).open("w") as lines:
        for number, (name, (alpha, cost)) in product(range(prompts), rates.items()):
            category = TASKS[number % len(TASKS)]
            decoding = decoded(chance, alpha, cost)
            measurement = Measurement(str(number), 1, category, name, decoding=decoding)
            lines.write(json.dumps(measurement.plain()) + "\n")
    summary = Summary(load(folder))
    write_json(summary, folder)
    Page().end({"": summary}, folder)


def decoded(chance: random.Random, alpha: float, cost: float) -> Decoding:
    """Returns a text of a drafter. alpha: of its tokens. cost: the seconds that one takes."""
    steps, left = list[Step](), TOKENS
    while left > 0:
        drafted = min(GAMMA, left - 1) if alpha else 0
        accepted = next((n for n in range(drafted) if chance.random() > alpha), drafted)
        tested = min(drafted, accepted + 1)
        tokens = range(TOKENS - left, TOKENS - left + accepted + 1)
        last = "bonus" if accepted == drafted else "recovered"
        pieces = tuple(f" word{token}" for token in tokens)
        steps.append(
            Step(
                tuple(tokens),
                ("accepted",) * accepted + (last,),
                pieces,
                drafted,
                tested,
                accepted,
                (1,) * tested,
                (0,) * accepted,
                cost * drafted,
                CALL * chance.uniform(0.95, 1.05),
                0.0005,
                None,
                pieces[:accepted] + (" other",) * (drafted - accepted),
                tuple(range(-1, drafted - 1)),
            )
        )
        left -= accepted + 1
    seconds = sum(step.draft + step.score + step.verify for step in steps)
    return Decoding(tuple(steps), seconds, CALL * 1.01, CALL, prompt_tokens=chance.randint(8, 400))


def addresses(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yields the addresses of a run's page, each as a context."""
    yield "view", served(folder)
    yield "file", written(folder)
    page = folder / PAGE
    kept, key = page.read_text(), page_key(Run(folder, read_facts(folder), ()))
    page.write_text(kept.replace(key, f"{key.split()[0]} another", 1))
    yield "view, kept by another version", served(folder)
    page.write_text(kept)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    (run,) = run_folders([folder])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app([folder], "t"), log_level="warning", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/t/runs?run={run}"
        server.should_exit = True
        thread.join()


@contextmanager
def written(folder: Path) -> Iterator[str]:
    yield (folder / "report.html").as_uri()


def opened_in(browser: Browser, address: str) -> float:
    """Returns the seconds until a page has been loaded and drawn."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    start = time.perf_counter()
    page.goto(address, timeout=600_000)
    page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    seconds = time.perf_counter() - start
    page.close()
    return seconds


def pictured(browser: Browser, address: str, prefix: Path) -> Iterator[str]:
    """Takes pictures of a page, and yields what axe finds."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    for width, scheme in product(WIDTHS, ("light", "dark")):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.goto(address)
        page.screenshot(path=f"{prefix}-{width}-{scheme}.png", full_page=True)
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        for fault in Axe().run(page).response["violations"]:
            places = ", ".join(str(node["target"][0]) for node in fault["nodes"][:3])
            yield f"{prefix.name}, {width}, {scheme}: {fault['id']} ({fault['impact']}): {places}"
        page.close()


if __name__ == "__main__":
    main()
