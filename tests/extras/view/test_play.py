"""The page that writes texts shows what decoding did, one text at a time, and can be stopped."""

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page, expect
from starlette.datastructures import QueryParams
from tiny.browsing import Opener, assert_fits_and_is_accessible, cookie
from tiny.growth import growth

from outrider import ConfigError, Context, Drafter, Pen, generate
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.extras.view import play
from outrider.extras.view.play import Parts, Player, parts_of, runnable
from outrider.extras.view.server import app
from outrider.targets.transformers import TransformersTarget

PROMPT = "red blue red blue red"


class Slow(Drafter):
    """Waits in its third round until it is let go."""

    def __init__(self) -> None:
        self.rounds, self.reached, self.go = 0, threading.Event(), threading.Event()

    def propose(self, context: Context, pen: Pen) -> None:
        self.rounds += 1
        if self.rounds == 3:
            self.reached.set()
            assert self.go.wait(60)


@pytest.fixture(scope="module")
def slow() -> Slow:
    return Slow()


@pytest.fixture(scope="module")
def player(target: TransformersTarget, slow: Slow) -> Player:
    def slow_or_named(settings: list[str]) -> Parts:
        parts = parts_of(settings)
        return {**parts, "drafter": slow} if "drafter.newest=false" in settings else parts

    return Player("a tiny model", target, slow_or_named)


@pytest.fixture(scope="module")
def address(player: Player, serve: Callable[..., str]) -> str:
    return serve(app([], "secret", player))


@pytest.fixture
def opened(opener: Opener, address: str) -> Callable[..., Page]:
    def go() -> Page:
        page = opener.enter(address)
        page.get_by_role("link", name="Playground").click()
        page.locator("#prompt").fill(PROMPT)
        page.locator("[name=max_new_tokens]").fill("12")
        page.locator("[name=beside]").select_option("")
        return page

    return go


def write(page: Page, status: str) -> None:
    page.get_by_role("button", name="Write").click()
    page.locator("#status", has_text=re.compile(f"^{status}")).wait_for()


def events(address: str, **query: Any) -> list[tuple[str, Any]]:
    """Returns the events of a text, as a browser would get them."""
    query = {"prompt": PROMPT, "max_new_tokens": 12} | query
    asked = f"{address}play/stream?{urlencode(query)}"
    with urlopen(Request(asked, headers={"Cookie": cookie(address)}), timeout=3600) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        parts = answer.read().decode().strip().split("\n\n")
    lines = (part.split("\n") for part in parts)
    return [(name.removeprefix("event: "), json.loads(data[6:])) for name, data in lines]


def test_the_page_shows_decoding_round_by_round(
    opened: Callable[..., Page], target: TransformersTarget
) -> None:
    page = opened()
    page.get_by_label("Drafter").select_option("bigram")
    page.get_by_label("Draft length").fill("3")
    write(page, "Done")
    expected = generate(target, PROMPT, "bigram", gamma=3, max_new_tokens=12)
    tokens = page.locator("#text [data-token]")
    assert "".join(tokens.all_text_contents()) == expected.text
    origins = [origin for round in expected.rounds for origin in round.origins]
    assert tokens.evaluate_all("all => all.map(e => e.className)") == origins
    assert page.locator("#text .round").count() == len(expected.rounds)
    rows = page.locator("#rounds tbody tr")
    assert rows.count() == len(expected.rounds)
    for row, round in zip(rows.all(), expected.rounds, strict=True):
        drafted, accepted, thrown, added, _ = row.locator("td").all()
        assert drafted.locator("code").count() == len(round.draft)
        assert accepted.locator("code").count() == round.accepted
        assert thrown.locator("code").count() == len(round.draft) - round.accepted
        assert added.locator("code").count() == len(round.tokens) - round.accepted
    counts = expected.counts
    result = page.locator("#results tbody tr").first.locator("th, td").all_inner_texts()
    accepted = f"{counts.accepted} of {counts.drafted}"
    rates = [f"{counts.block_efficiency:.2f}", accepted]
    assert result[:5] == ["bigram", str(counts.emitted), str(counts.rounds), *rates]
    assert re.fullmatch(r"Done: bigram [\d.]+ tokens/s\.", page.locator("#status").inner_text())
    assert f"{counts.block_efficiency:.2f} tokens per call" in page.inner_text("#figures")


def test_ids_that_end_a_text_are_a_setting() -> None:
    assert parts_of(["stop_token_ids=[3,5]"])["stop_token_ids"] == [3, 5]
    assert parts_of([])["stop_token_ids"] == []


def test_drafters_are_offered_with_a_word_if_they_can_run() -> None:
    offered = runnable("smollm2")
    assert offered["prompt_lookup"].startswith("Prompt lookup: copies")
    assert {"none", "eagle", "bigram", "quantized"} <= offered.keys()
    assert not {"dflash", "token_recycling", "hydra"} & offered.keys()
    assert not {"eagle", "medusa"} & runnable("another").keys()
    assert "mtp" not in offered  # its weights are in no folder of SmolLM2


def test_two_drafters_write_side_by_side_and_outlast_a_reload(opened: Callable[..., Page]) -> None:
    page = opened()
    page.get_by_label("Drafter").select_option("bigram")
    page.locator("[name=beside]").select_option("none")
    assert "bigram: Guesses from" in page.locator("#words").inner_text()
    write(page, "Done")

    def shown() -> list[list[str]]:
        texts = (page.locator(f"#text{side} [data-token]") for side in ("", "-beside"))
        names = page.locator("#results tbody th").all_inner_texts()
        return [*(text.all_text_contents() for text in texts), names]

    texts = shown()
    assert texts[0] == texts[1] and len(texts[0]) > 2  # temperature 0
    assert texts[2] == ["none", "bigram"]
    names = ["bigram", "none"]  # above the texts, and again above the rounds
    assert page.locator("[data-drafter]").all_inner_texts() == names * 2
    said = page.locator("#status").inner_text()
    one, other, ratio = map(float, re.findall(r"[\d.]*\d", said))
    fast = "bigram" if one > other else "none"
    words = f"bigram {one} tokens/s, none {other} tokens/s: {fast} is {ratio:.2f} times as fast."
    assert said == f"Done: {words}"
    assert ratio == pytest.approx(max(one, other) / min(one, other), rel=0.01)
    page.reload()
    assert shown() == texts
    assert page.locator("#prompt").input_value() == PROMPT
    assert page.locator("[name=beside]").input_value() == "none"


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ({"drafter": "bigran"}, "drafter='bigran': did you mean 'bigram'"),
        ({"more": "target=smollm2"}, "settings='target=smollm2': expected a known one"),
        ({"more": "drafter._target_=os.getcwd"}, "settings='os.getcwd': expected a part by"),
        ({"prompt": ""}, "prompt='': expected 1 to 4000 characters"),
    ],
)
def test_a_text_that_cannot_be_written_is_refused_in_a_line(
    address: str, query: dict[str, str], line: str
) -> None:
    ((name, data),) = events(address, **query)
    assert name == "fault"
    assert line in data
    assert "\n" not in data


def test_a_fault_of_a_drafter_is_said_after_its_rounds(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: PromptLookup, context: Context, pen: Pen) -> None:
        if len(context.tokens) > 6:
            raise ValueError("out of ideas")

    monkeypatch.setattr(PromptLookup, "propose", fail)
    names = [name for name, _ in events(address)]
    assert names == ["round", "round", "fault"]
    assert "out of ideas" in events(address)[-1][1]


def test_a_text_is_stopped_and_only_one_is_written_at_a_time(
    opened: Callable[..., Page],
    address: str,
    slow: Slow,
    player: Player,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = opened()
    page.get_by_label("More settings").fill("drafter.newest=false")
    page.get_by_role("button", name="Write").click()
    assert slow.reached.wait(60)
    expect(page.locator("#text .round")).to_have_count(2)
    monkeypatch.setattr(play, "PATIENCE", 0.01)
    assert events(address) == [("fault", play.BUSY)]
    monkeypatch.undo()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#status")).to_have_text("Stopped.")
    end = time.monotonic() + 60
    while player.turn.locked():  # until the server sees that the page has gone
        assert time.monotonic() < end
        time.sleep(0.01)
    slow.go.set()
    assert events(address)[-1][0] == "end"
    assert slow.rounds == 3


def test_a_browser_that_no_longer_reads_gives_up_its_turn(
    target: TransformersTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(play, "UNREAD", 0.01)
    player = Player("a tiny model", target, parts_of)
    query = QueryParams({"prompt": PROMPT, "drafter": "none", "max_new_tokens": "3"})

    async def both() -> tuple[list[str], list[str]]:
        unread = player.events(query)
        first = await anext(unread)
        others = [line async for line in player.events(query)]
        return [first, *[line async for line in unread]], others

    with ThreadPoolExecutor(1) as thread:  # the browser has a loop in this one
        left, others = thread.submit(asyncio.run, both()).result()
    assert len(left) == 1 and len(others) == 4


def test_a_text_ends_when_the_server_stops(
    address: str, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(player, "is_over", lambda: True)
    assert [name for name, _ in events(address)] == ["round"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Cookie": ""},
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Dest": "document"},
        {"Sec-Purpose": "prefetch"},
    ],
)
def test_only_a_script_of_the_page_writes_a_text(address: str, headers: dict[str, str]) -> None:
    with pytest.raises(OSError, match="403"):
        urlopen(Request(f"{address}play/stream", headers={"Cookie": cookie(address)} | headers))


@pytest.mark.parametrize(
    "setting",
    [
        *("drafter=suffix drafter.memory={path}", "drafter=suffix drafter.memory=17"),
        *("drafter=small_lm drafter.model={path}", "policy=bandit policy.state={path}"),
        "drafter=hybrid drafter.drafters=[none,{{drafter:suffix,memory:{path}}}]",
    ],
)
def test_a_page_names_no_file_that_the_server_was_not_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("outrider.extras.view.play.build", lambda config: None)
    drafter, text = setting.format(path=tmp_path / "new").split()
    with pytest.raises(ConfigError, match="--allow SETTING=VALUE` allows others"):
        parts_of([drafter, text], ["drafter.memory=other"])
    assert list(tmp_path.iterdir()) == []
    parts_of([drafter, text], [text])


def test_the_page_fits_and_axe_finds_nothing_serious(opened: Callable[..., Page]) -> None:
    page = opened()
    page.get_by_label("Drafter").select_option("bigram")
    write(page, "Done")
    assert_fits_and_is_accessible(page)


def test_each_round_of_a_long_text_takes_the_same_work(player: Player) -> None:
    def written(count: int) -> Callable[[], object]:
        query = {"prompt": PROMPT, "drafter": "none", "max_new_tokens": str(count)}
        return lambda: list(player.written(QueryParams(query)))

    written(2)()
    assert growth(written, 8) < 2.3
