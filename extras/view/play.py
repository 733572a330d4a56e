"""Play: writes a text for a browser, and sends each round as soon as it is done."""

import asyncio
import json
import shlex
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from outrider.base.errors import ANY_FAULT, ConfigError, OutriderError, described, require
from outrider.cli.about import about, in_brief, needs
from outrider.contract.round import Counts, Round
from outrider.contract.target import Target
from outrider.decoding.decode import decode
from outrider.extras.view.page.render import render
from outrider.extras.view.page.texts import shown_rounds
from outrider.lab.measuring.measurement import Step
from outrider.lab.measuring.trial import piece_of
from outrider.plugins.registry import installed

FIELDS = ("drafter", "gamma", "sampling.temperature", "max_new_tokens")
"""The settings with a field of their own. All others are typed as on the command line."""

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
            parts = self.parts_of(settings_of(query))
            for round in self.rounds(query.get("prompt", ""), parts):
                counts, seconds = counts + Counts.of([round]), seconds + sum(round.seconds.values())
                yield event("round", self.shown(round, counts, seconds))
            speed = counts.emitted / seconds
            row = render(
                "play_result",
                drafter=query.get("drafter", "prompt_lookup"),
                settings=", ".join(settings_of(query)[1:]).replace("sampling.", ""),
                counts=counts,
                speed=speed,
                lossless=parts["verifier"].lossless,
                prompt=query.get("prompt", ""),
            )
            yield event("end", {"row": row, "speed": speed})
        except ANY_FAULT as error:
            is_ours = isinstance(error, OutriderError)
            yield event("fault", str(error) if is_ours else described(error))

    def rounds(self, prompt: str, parts: Parts) -> Iterator[Round]:
        """Returns the rounds of a text; raises `OutriderError` for what can't work."""
        require(0 < len(prompt) <= LONGEST, "prompt", prompt[:20], f"1 to {LONGEST} characters")
        options = {name: part for name, part in parts.items() if name != "chat"}
        tokens = self.target.encode(prompt, chat=parts["chat"])
        return decode(self.target, tokens=tokens, **options)

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
    try:
        others = shlex.split(query.get("more", ""))
    except ValueError as error:
        raise ConfigError(f"settings: {error}") from error
    return [f"{name}={query[name]}" for name in FIELDS if query.get(name)] + others


def event(name: str, data: Any) -> str:
    """Returns a server-sent event, its data as JSON."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
