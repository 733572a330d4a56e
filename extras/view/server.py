"""View: a web server for this machine only, which shows runs and changes nothing."""

import secrets
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outrider.base.errors import ConfigError
from outrider.extras.view.export import tables
from outrider.extras.view.page.contents import SERVED, Follow, drawings, runs_page
from outrider.extras.view.page.listing import (
    Listed,
    active,
    listed,
    run_folders,
    state,
    with_sweeps,
)
from outrider.extras.view.page.render import render, script_hashes
from outrider.extras.view.page.texts import questions
from outrider.extras.view.play import Player
from outrider.extras.view.report import stored_page
from outrider.lab.runs.export import comparison
from outrider.lab.runs.files import FACTS, LINES, read_in, stamp
from outrider.lab.runs.labels import labels
from outrider.lab.runs.run import load
from outrider.lab.runs.summary import Summary

HOSTS = ("127.0.0.1", "localhost")

FILES = ("comparison.json", "comparison.parquet", "rounds.parquet", FACTS, LINES)
"""The files to download from a run. The first three are made on request, finished or not."""

TEXTS = 20
"""The questions whose texts one page shows."""

LARGE = 15_000_000
"""The bytes of measurements that take about two seconds to read and draw."""

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'; script-src ",
}
"""Sent with every answer. A page loads nothing, and runs no script but the one it comes with."""

KEPT = 16
"""The pages and runs that are kept, to be shown again."""

Page = Callable[[Request], Response]
Result = TypeVar("Result")


def app(folders: Sequence[Path], token: str, player: Player | None = None) -> ASGIApp:
    """Returns the application that shows the runs in some folders and below them.

    token: the first part of every address; without it every request is refused. GET is the only
        method.
    player: writes texts, on a page of its own. Defaults to none.
    """
    pages: dict[str, Page] = {
        "/": _list,
        "/runs": _runs,
        "/texts": _texts,
        "/state": _state,
        "/files/{run}/{name}": _file,
    }
    if player is not None:
        pages |= {"/play": player.page, "/play/stream": player.stream}
    lock = Lock()  # one page at a time: matplotlib's settings are global
    routes = [
        Route(path, partial(_answer, page, lock), methods=["GET"]) for path, page in pages.items()
    ]
    application = Starlette(
        routes=[Mount("/{token}", routes=routes)],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS))],
    )
    application.state.folders, application.state.token = tuple(folders), token
    application.state.plays, application.state.made = player is not None, {}
    return _with_headers(application)


async def _answer(page: Page, lock: Lock, request: Request) -> Response:
    token = request.path_params["token"]
    if not secrets.compare_digest(token.encode(), request.app.state.token.encode()):
        raise HTTPException(403, "the address has no valid token: use the one that was printed")

    def answer() -> Response:
        with lock:
            try:
                return page(request)
            except ConfigError as error:
                return PlainTextResponse(str(error), status_code=500)

    return await run_in_threadpool(answer)


def _with_headers(pages: ASGIApp) -> ASGIApp:
    """Returns an application whose answers all have `HEADERS`, refusals and errors included."""
    policy = HEADERS["Content-Security-Policy"] + script_hashes()

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update({**HEADERS, "Content-Security-Policy": policy})
            await send(message)

        await pages(scope, receive, send_with_headers)

    return answering


def _list(request: Request) -> Response:
    folders = run_folders(request.app.state.folders)
    runs: list[Listed] = []
    damaged: list[str] = []
    for run_id, folder in folders.items():
        try:
            runs.append(listed(run_id, folder))
        except ConfigError as error:
            damaged.append(str(error))
    page = render(
        "list",
        count=len(runs),
        runs=sorted(with_sweeps(runs), key=lambda run: run.date, reverse=True),
        damaged=damaged,
        plays=request.app.state.plays,
        folders=[str(folder) for folder in request.app.state.folders],
        follow=Follow("state", state(list(folders.values()))),
    )
    return HTMLResponse(page)


def _runs(request: Request) -> Response:
    chosen = _chosen(request)
    folders = tuple(chosen.values())
    query = f"run={','.join(chosen)}"
    anew = f"runs?{query}&anew=1"
    stored = None
    if "anew" not in request.query_params:
        stored = stored_page(folders[0]) if len(folders) == 1 else None
        size = sum((stamp(folder, LINES) or (0, 0.0))[0] for folder in folders)
        if stored is None and size > LARGE:
            page = render("waiting", address=anew, megabytes=round(size / 1e6), follow=None)
            return HTMLResponse(page)
    if stored is not None:
        page, names = stored.html, [""]
    else:
        now = state(folders), query, any(map(active, folders))
        page, names = _remembered(request, now, lambda: _page(request, folders, *now))
    links = render(
        "served",
        first=next(iter(chosen)),
        runs=list(zip(names, chosen, strict=True)),
        names=FILES,
        anew=anew if stored is not None and not stored.is_current else "",
    )
    return HTMLResponse(page.replace(SERVED, links, 1))


def _texts(request: Request) -> Response:
    run_id, folder = next(iter(_chosen(request).items()))
    (summary,) = _summaries(request, [folder]).values()
    count = len(summary.run.facts["questions"])
    first = int(min(max(0, _number(request, "from")), max(0, count - 1)))
    page = render(
        "question",
        title="Who wrote what",
        questions=questions(summary, slice(first, first + TEXTS)),
        run=run_id,
        first=first,
        size=TEXTS,
        count=count,
        follow=None,
    )
    return HTMLResponse(page)


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "0")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _state(request: Request) -> Response:
    if "run" in request.query_params:
        return PlainTextResponse(state(list(_chosen(request).values())))
    return PlainTextResponse(state(list(run_folders(request.app.state.folders).values())))


def _file(request: Request) -> Response:
    folder = _folder(request, request.path_params["run"])
    name = request.path_params["name"]
    if name not in FILES:
        raise HTTPException(404, f"{name!r}: expected one of {', '.join(FILES)}")
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    if name in (FACTS, LINES):
        content = read_in(folder, name)
        if content is None:
            raise HTTPException(404, f"{name}: nothing has been measured yet")
        return Response(content, media_type="application/json", headers=headers)
    (summary,) = _summaries(request, [folder]).values()
    if name == "comparison.json":
        return Response(comparison(summary), media_type="application/json", headers=headers)
    from pyarrow import parquet

    file = BytesIO()
    parquet.write_table(tables(summary.run)[name.removesuffix(".parquet")], file)
    media_type = "application/vnd.apache.parquet"
    return Response(file.getvalue(), media_type=media_type, headers=headers)


def _chosen(request: Request) -> dict[str, Path]:
    """Returns the folders of the runs that an address names, by id."""
    values = request.query_params.getlist("run")  # a sweep is several ids in one
    ids = dict.fromkeys(run_id for value in values for run_id in value.split(","))
    if not ids:
        raise HTTPException(404, "choose at least one run")
    return {run_id: _folder(request, run_id) for run_id in ids}


def _folder(request: Request, run_id: str) -> Path:
    folders = run_folders(request.app.state.folders)
    if run_id not in folders:
        raise HTTPException(404, f"{run_id!r}: no such run")
    return folders[run_id]


def _page(
    request: Request, folders: Sequence[Path], now: str, query: str, is_active: bool
) -> tuple[str, list[str]]:
    """Returns the page of runs, and their labels.

    now: their state. query: names them in addresses. is_active: whether one was just written to.
    """
    summaries = _summaries(request, folders)
    goes_on = is_active and any(not summary.run.finished for summary in summaries.values())
    follow = Follow(f"state?{query}", now) if goes_on else None
    # Plots would take time from the run that is measured.
    drawn = {} if goes_on else drawings(summaries)
    return runs_page(summaries, drawn, follow=follow), [*summaries]


def _summaries(request: Request, folders: Sequence[Path]) -> dict[str, Summary]:
    """Returns the summaries of runs by label, those of before if the runs are as they were."""

    def read() -> dict[str, Summary]:
        runs = [load(folder) for folder in folders]
        return {label: Summary(run) for label, run in zip(labels(runs), runs, strict=True)}

    return _remembered(request, ("summaries", *folders, state(folders)), read)


def _remembered(request: Request, key: Hashable, make: Callable[[], Result]) -> Result:
    """Returns what was made for a key before, or makes it; only the last few are kept."""
    known: dict[Hashable, Any] = request.app.state.made
    if key not in known:
        known[key] = make()
        if len(known) > KEPT:
            known.pop(next(iter(known)))
    result: Result = known[key]
    return result
