"""Play: writes a text for a browser, and sends each round as soon as it is done."""

import asyncio
import json
import re
import shlex
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, final

from hydra.errors import HydraException
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from outrider.base.calling import hints_of
from outrider.base.errors import (
    ANY_FAULT,
    ConfigError,
    OutriderError,
    described,
    nearest,
    refusing,
    require,
)
from outrider.base.expectations import is_free_text
from outrider.cli.about import about, in_brief, needs
from outrider.contract.drafter import Drafter
from outrider.contract.round import Counts, Round
from outrider.contract.target import Target
from outrider.decoding.decode import decode
from outrider.extras.view.page.render import render
from outrider.extras.view.page.texts import shown_rounds
from outrider.lab.measuring.measurement import Step
from outrider.lab.measuring.trial import piece_of
from outrider.lab.runs.labels import flatten
from outrider.plugins.config import build, compose
from outrider.plugins.explaining import explain_error
from outrider.plugins.parts import TARGET, factory_of
from outrider.plugins.reading import plain_values
from outrider.plugins.registry import installed
from outrider.plugins.roles import ROLES

FIELDS = ("drafter", "gamma", "sampling.temperature", "max_new_tokens")
"""The settings with a field of their own. All others are typed as on the command line."""

PARTS = ("drafter", "verifier", "policy", "sampling")

SETTINGS = (*PARTS, "gamma", "budget", "max_new_tokens", "stop", "stop_token_ids", "chat")
"""What can be set: the parts with their own settings, and what belongs to one text."""

PATIENCE = 5.0
"""How many seconds a text waits for the one before it to stop."""

UNREAD = 30.0
"""How many seconds a text waits for a browser that no longer reads; then it ends."""

BUSY = "another text is being written here: stop that one first"

LONGEST = 4000
"""The most characters of a prompt: it is a part of the address."""


Parts = Mapping[str, Any]
"""What writes a text: the options of `outrider.decode` by name, and `chat`."""


@final
class Player:
    """A target that is loaded once, and writes one text at a time.

    name: the target's, for the page.
    parts_of: makes the parts from settings as they are typed on the command line; it raises
        `ConfigError`.
    is_over: tells whether the server is stopping; a text then ends after its round.
    """

    def __init__(
        self, name: str, target: Target, parts_of: Callable[[Sequence[str]], Parts]
    ) -> None:
        self.name = name
        self.target = target
        self.parts_of = parts_of
        self.is_over: Callable[[], bool] = lambda: False
        self.turn: asyncio.Lock = asyncio.Lock()
        # All passes run in this one thread, so that a text is closed only after its round.
        self.thread: ThreadPoolExecutor = ThreadPoolExecutor(1, "play")

    def page(self, request: Request) -> Response:
        drafters = runnable(self.name)
        return HTMLResponse(
            render("play", target=self.name, drafters=drafters, longest=LONGEST, follow=None)
        )

    def stream(self, request: Request) -> Response:
        """Returns the text that the address asks for, as server-sent events."""
        return StreamingResponse(self.events(request.query_params), media_type="text/event-stream")

    async def events(self, query: QueryParams) -> AsyncIterator[str]:
        """Yields the events of a text; it stops after the round in which the browser goes away."""
        try:
            await asyncio.wait_for(self.turn.acquire(), PATIENCE)
        except TimeoutError:
            yield event("fault", BUSY)
            return
        rounds, loop, is_ended = self.written(query), asyncio.get_running_loop(), False

        def end() -> None:
            nonlocal is_ended
            if not is_ended:
                is_ended = True
                self.thread.submit(rounds.close)
                self.turn.release()

        try:
            while (line := await loop.run_in_executor(self.thread, next, rounds, "")) != "":
                gives_up = loop.call_later(UNREAD, end)
                yield line
                gives_up.cancel()
                if is_ended or self.is_over():
                    break
        finally:
            end()

    def written(self, query: QueryParams) -> Generator[str, None, None]:
        """Yields an event for each round, and one for the end or for what went wrong."""
        counts, seconds = Counts(), 0.0  # without the page's time
        try:
            settings, prompt = settings_of(query), query.get("prompt", "")
            parts = dict(self.parts_of(settings))
            require(0 < len(prompt) <= LONGEST, "prompt", prompt[:20], f"1 to {LONGEST} characters")
            tokens = self.target.encode(prompt, chat=parts.pop("chat"))
            for round in decode(self.target, tokens=tokens, **parts):
                counts, seconds = counts + Counts.of([round]), seconds + sum(round.seconds.values())
                yield event("round", self.shown(round, counts, seconds))
            speed = counts.emitted / seconds
            row = render(
                "play_result",
                drafter=query.get("drafter", "prompt_lookup"),
                settings=", ".join(settings[1:]).replace("sampling.", ""),
                counts=counts,
                speed=speed,
                lossless=parts["verifier"].lossless,
                prompt=prompt,
            )
            yield event("end", {"row": row, "speed": speed})
        except ANY_FAULT as error:
            is_ours = isinstance(error, OutriderError)
            yield event("fault", str(error) if is_ours else described(error))

    def shown(self, round: Round, counts: Counts, seconds: float) -> dict[str, str]:
        """Returns a round as the page shows it: in the text, in the table, in figures.

        counts, seconds: of the text so far.
        """
        step = Step.of(round, partial(piece_of, self.target))
        (shown,) = shown_rounds([step], None)
        return {
            "text": render("play_text", round=shown),
            "row": render("play_round", number=counts.rounds, step=step, round=shown),
            "figures": counts.told(seconds),
        }


def runnable(target: str) -> dict[str, str]:
    """Returns the drafters that run as they are, by name, each with a word on it.

    Left out are those that need a setting, trees, an encoder, or weights that nobody has made.

    target: its name.
    """
    missing = ("=", "trees", "an encoder's input")
    return {
        name: in_brief(about(entry), 100)
        for name, entry in installed().of("drafter").items()
        if not any(
            need.endswith(missing) or (need.startswith("weights") and target not in need)
            for need in needs(entry)
        )
    }


def settings_of(query: QueryParams) -> list[str]:
    """Returns the settings of a form as they would stand on the command line."""
    with refusing("settings: expected them as on the command line", ValueError):
        others = shlex.split(query.get("more", ""))
    return [f"{name}={query[name]}" for name in FIELDS if query.get(name)] + others


def event(name: str, data: Any) -> str:
    """Returns a server-sent event, its data as JSON."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def parts_of(settings: Sequence[str], allowed: Sequence[str] = ()) -> Parts:
    """Returns the parts that settings describe, with the defaults of `outrider generate`.

    The last few drafters are kept, so that their weights are loaded once.

    allowed: those that may have a text of their own, such as a path. Defaults to none.

    Raises `ConfigError` if there is no such setting or part, or it has a text that is not allowed.
    """
    for setting in settings:
        name = re.split(r"[.=]", setting, maxsplit=1)[0]
        is_set = "=" in setting
        expected = f"a known one; {nearest(name, SETTINGS)}" if is_set else "SETTING=VALUE"
        require(is_set and name in SETTINGS, "settings", setting, expected)
    try:
        config = compose("generate", settings)
        values = {name: plain_values(config[name]) for name in SETTINGS}
        for key, part in flatten(values, lists=True):  # any page can ask
            is_part, expected = TARGET in key.split("."), "a part by its registered name"
            require(not is_part or part in _known(), "settings", part, expected)
        safe = [each for each in settings if "." not in each.partition("=")[0] or each in allowed]
        kept = dict(_free_texts(_parts(compose("generate", safe))))
        for key, text in _free_texts(_parts(config)):
            expected = "a name or a number; `outrider view --allow SETTING=VALUE` allows others"
            require(kept.get(key) == text, "settings", f"{key}={text}", expected)
        made = {name: build(config[name]) for name in ("verifier", "policy", "sampling")}
        return values | made | {"drafter": _drafter(json.dumps(values["drafter"]))}
    except (HydraException, OmegaConfBaseException, MissingMandatoryValue) as error:
        raise ConfigError(explain_error(error, "generate", settings)) from error


@lru_cache(maxsize=4)
def _drafter(config: str) -> Drafter:
    drafter: Drafter = build(json.loads(config))
    return drafter


def _parts(config: Any) -> dict[str, Any]:
    return {name: plain_values(config[name]) for name in PARTS}


def _known() -> set[str]:
    """Returns the names of all parts, and those of what makes them."""
    entries = [entry for entry in installed().entries if entry.role in ROLES]
    return {"outrider.Sampling"}.union(*({entry.name, entry.path} for entry in entries))


def _free_texts(value: Any, key: str = "", hint: Any = None) -> Iterator[tuple[str, object]]:
    """Yields the texts in a config that name no part or choice, by key: they may name files.

    A tree's shape is no file's name.
    """
    if isinstance(value, Mapping):
        hints = hints_of(factory_of(value)) if TARGET in value else {}
        for name, item in value.items():
            yield from _free_texts(item, f"{key}.{name}" if key else name, hints.get(name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _free_texts(item, f"{key}.{number}")
    elif key.rpartition(".")[2] != "tree" and is_free_text(hint, value, _known()):
        yield key, value
