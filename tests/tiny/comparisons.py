"""Runs of the lab on tiny models, finished and unfinished."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, Error, expect, sync_playwright
from starlette.applications import Starlette

from outrider import Drafter, Sampling, Verifier
from outrider.data.prompts import Prompt
from outrider.drafters.ngram import bigram
from outrider.drafters.none import NoDraft
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.lab.measuring.compare import PROTOCOLS, fit, measure, questions
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.measuring.variants import Question, Settings, Variant
from outrider.lab.runs.files import FACTS
from outrider.lab.runs.run import Run, load
from outrider.lab.runs.store import RunFolder
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.token import Token
from tiny import NO_BROWSER
from tiny.chromium import launch

PROMPTS = [
    Prompt("a", "chat", ("the cat sat on the mat", "and the dog ?")),
    Prompt("b", "chat", ("one two three one two",)),
    Prompt("c", "code", ("red blue red blue red",)),
    Prompt("d", "code", ("he was not so big !",)),
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=3_600_000)
    with sync_playwright() as playwright:
        try:
            browser = launch(playwright)
        except Error:
            if os.environ.get("OUTRIDER_BROWSER") == "required":
                raise
            pytest.skip(NO_BROWSER)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[[Starlette], str]]:
    """Serves an application until the module's tests have ended, and returns its address."""
    with ExitStack() as stack:

        def go(application: Starlette) -> str:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            server = uvicorn.Server(uvicorn.Config(application, log_level="warning", ws="none"))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            stack.callback(thread.join)
            stack.callback(setattr, server, "should_exit", True)
            return f"http://127.0.0.1:{listener.getsockname()[1]}/"

        yield go


@pytest.fixture(scope="session")
def target(llama: Any, words: Any) -> TransformersTarget:
    return TransformersTarget(llama(3, num_hidden_layers=1), words)  # some texts end early


def three_drafters() -> dict[str, Drafter]:
    return {"none": NoDraft(), "lookup": PromptLookup(), "bigram": bigram()}


@pytest.fixture
def drafters() -> dict[str, Drafter]:
    return three_drafters()


@pytest.fixture
def run_in(target: TransformersTarget, drafters: dict[str, Drafter]) -> Callable[..., RunFolder]:
    """Measures into a folder: all drafters by both protocols, unless the options limit it."""
    return runner(target, drafters)


@pytest.fixture(scope="session")
def whole_run(target: TransformersTarget, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of three drafters by both protocols, which has its command and date."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    start = {"command": "outrider compare gamma=3", "date": "2026-01-02T03:04:05+00:00"}
    facts = {**runner(target, three_drafters())(folder).facts, "starts": [start]}
    (folder / FACTS).write_text(json.dumps(facts))
    return load(folder)


TIMES = (
    *("draft", "score", "verify", "seconds", "plain_seconds", "plain_call"),
    *("repeats", "plain_repeats"),
)
"""The fields of measurements that hold seconds."""


def timeless(measurements: Any) -> Any:
    """Returns the measurements as plain values, without seconds."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if key not in TIMES}
        return [strip(item) for item in value] if isinstance(value, list | tuple) else value

    return strip([item.plain() for item in measurements])


ASKED: dict[str, list[Question]] = {}
MEASURED: dict[str, list[Measurement]] = {}
"""What was asked and measured before, by all that it depends on."""


CALL = 0.001
"""The seconds of a target call in these runs."""


def timed_by_calls(measurement: Measurement) -> Measurement:
    """Returns what a machine measures on which calls take equal time, and all else takes none.

    With the times of a real one, which texts of a millisecond have, speedups may be doubtful.
    """
    if measurement.decoding is None:
        return measurement
    seconds = CALL * len(measurement.decoding.steps)
    decoding = replace(
        measurement.decoding,
        seconds=seconds,
        plain_seconds=CALL,
        plain_call=CALL,
        repeats=(seconds,) * len(measurement.decoding.repeats),
        plain_repeats=(CALL,) * len(measurement.decoding.plain_repeats),
    )
    return replace(measurement, decoding=decoding)


def runner(target: TransformersTarget, drafters: dict[str, Drafter]) -> Callable[..., RunFolder]:
    """Returns what measures into a folder.

    The drafters are measured once for equal options, unless a test has changed them; a run that
    goes on is measured.
    """
    usual = dict(drafters)

    def go(  # noqa: PLR0913  the options of a run, by name
        folder: Path,
        *,
        protocol: str = "both",
        verifier: Verifier | None = None,
        gamma: int = 3,
        temperature: float = 0.0,
        stop_after: int | None = None,
        resume: bool = False,
        again: bool = False,
    ) -> RunFolder:
        folder.mkdir(parents=True, exist_ok=True)
        rule = verifier or Token()
        variants = {name: Variant(drafter, rule) for name, drafter in drafters.items()}
        settings = Settings(gamma, None, Sampling(temperature=temperature), 16)
        answers = protocol != "decode"
        texts = str((temperature, answers))
        if texts not in ASKED or again:
            ASKED[texts] = questions(
                target, PROMPTS, settings, chat=False, answers=answers, folder=None
            )
        asked = ASKED[texts]
        fit(target, variants)
        facts = {
            "settings": {
                "gamma": gamma,
                "sampling": {"temperature": temperature},
                "verifier": {"_target_": f"here.{type(rule).__name__}"},
            },
            "drafters": {name: {} for name in drafters},
            "protocols": PROTOCOLS[protocol],
            "lossless": dict.fromkeys(drafters, rule.lossless),
            "remember": [name for name, drafter in drafters.items() if drafter.remembers],
            "questions": [[question.prompt, question.turn, "asked"] for question in asked],
        }
        kinds = {name: type(drafter) for name, drafter in drafters.items()}
        key = str((kinds, protocol, type(rule), vars(rule), gamma, temperature))
        is_shared = drafters == usual and not resume and not again
        with RunFolder(folder, facts, resume=resume) as run:
            done = tuple(run.measurements)
            measuring = map(
                timed_by_calls,
                measure(target, variants, asked, settings, protocol=protocol, done=done),
            )
            if is_shared:
                MEASURED[key] = MEASURED.get(key) or list(measuring)
            for count, measurement in enumerate(MEASURED[key] if is_shared else measuring, start=1):
                run.add(measurement)
                if count == stop_after:
                    break
        return run

    return go
