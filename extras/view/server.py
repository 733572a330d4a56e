"""View: a web server for this machine only, which shows runs and changes nothing."""

import secrets
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outrider.base.errors import ANY_FAULT, ConfigError, OutriderError, described
from outrider.extras.view.page.contents import Follow, drawings, runs_page
from outrider.extras.view.page.listing import (
    Listed,
    active,
    listed,
    run_folders,
    run_name,
    state,
    with_sweeps,
)
from outrider.extras.view.page.render import render, script_hashes
from outrider.extras.view.page.texts import questions
from outrider.extras.view.play import Player
from outrider.lab.runs.files import FACTS, LINES, read_in
from outrider.lab.runs.frames import comparison, tables
from outrider.lab.runs.run import gather
from outrider.lab.runs.summary import Summary, summarised

STREAM = "/play/stream"
"""What a text is read from, and written by reading."""

HOSTS = ("127.0.0.1", "localhost")

FILES = ("comparison.json", "comparison.parquet", "rounds.parquet", FACTS, LINES)
"""The files to download from a run. The first three are made on request, finished or not."""

TEXTS = 20
"""The questions whose texts one page shows."""

KEPT = 16
"""The pages and runs that are kept, to be shown again."""

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'; script-src ",
}
"""Sent with every answer. A page loads nothing, and runs no script but the one it comes with."""

Page = Callable[[Request], Response]

Result = TypeVar("Result")


def app(folders: Sequence[Path], token: str, player: Player | None = None) -> ASGIApp:
    """Returns the application that shows the runs in some folders and below them.

    token: what `/?token=` gives a browser as a cookie; without it every request is refused. GET is
        the only method.
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
        pages |= {"/play": player.page, STREAM: player.stream}
    application = Starlette(
        routes=[Route(path, partial(_answer, page)) for path, page in pages.items()],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS))],
    )
    application.state.folders, application.state.token = tuple(folders), token
    application.state.plays, application.state.made = player is not None, {}
    return _with_headers(application)


async def _answer(page: Page, request: Request) -> Response:
    if request.method != "GET":
        raise HTTPException(405)
    cookie = f"outrider-{request.url.port}"  # browsers send those of all ports of a host
    if _is_token(request, request.query_params.get("token", "")):
        # The page that follows has no token in its address, whoever led here.
        answer = HTMLResponse('<a href="./">All runs</a>', headers={"Refresh": "0; url=./"})
        answer.set_cookie(cookie, request.app.state.token, httponly=True, samesite="strict")
        return answer
    if not _is_token(request, request.cookies.get(cookie, "")):
        raise HTTPException(403, "this browser has no token: open the address that was printed")
    if (why := _foreign(request)) is not None:
        raise HTTPException(403, f"{why}: expected a page of this server")

    def answer_page() -> Response:
        try:
            return page(request)
        except HTTPException:
            raise
        except ANY_FAULT as error:  # of one run's files; the others are shown
            line = str(error) if isinstance(error, OutriderError) else described(error)
            return PlainTextResponse(line, status_code=500)

    return await run_in_threadpool(answer_page)


def _is_token(request: Request, text: str) -> bool:
    return secrets.compare_digest(text.encode(), request.app.state.token.encode())


def _foreign(request: Request) -> str | None:
    """Returns the header by which a request is not from a page of this server; None if it is.

    Browsers set these headers, and no page can. What writes a text is asked by a script alone.
    """
    expected = {
        "origin": (f"{request.url.scheme}://{request.url.netloc}",),
        "sec-fetch-site": ("same-origin", "none"),
    }
    if request.url.path == STREAM:
        expected |= {"sec-fetch-site": ("same-origin",), "sec-fetch-dest": ("empty",)}
        expected |= {"sec-purpose": ()}
    found = {name: request.headers.get(name) for name in expected}
    return next((f"{k}: {v}" for k, v in found.items() if v not in (None, *expected[k])), None)


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
    runs, damaged = list[Listed](), list[str]()
    for run_id, folder in folders.items():
        try:
            runs.append(listed(run_id, folder))
        except ConfigError as error:
            damaged.append(str(error))
    page = render(
        "list",
        count=len(runs),
        runs=with_sweeps(runs),
        run_name=run_name,
        damaged=damaged,
        plays=request.app.state.plays,
        folders=[str(folder) for folder in request.app.state.folders],
        follow=Follow("state", state(list(folders.values()))),
    )
    return HTMLResponse(page)


def _runs(request: Request) -> Response:
    chosen = _chosen(request)
    folders, query = tuple(chosen.values()), f"run={','.join(chosen)}"
    now, is_active = state(folders), any(map(active, folders))

    def drawn() -> str:
        summaries, left_out = _summaries(request, folders)
        goes_on = is_active and any(not summary.run.finished for summary in summaries.values())
        labels = {summary.run.folder: label for label, summary in summaries.items()}
        links = render(
            "served",
            first=next(iter(chosen)),
            runs=[(labels.get(folder, folder.name), run_id) for run_id, folder in chosen.items()],
            names=FILES,
            left_out=left_out,
        )
        follow = Follow(f"state?{query}", now) if goes_on else None
        # Plots would take time from the run that is measured.
        figures = {} if goes_on else drawings(summaries)
        return runs_page(summaries, figures, follow=follow, links=links)

    return HTMLResponse(_made(request, (now, query, is_active), drawn))


def _texts(request: Request) -> Response:
    run_id, folder = next(iter(_chosen(request).items()))
    (summary,) = _summaries(request, [folder])[0].values()
    count = len(summary.run.facts["questions"])
    given = request.query_params.get("from", "0")
    first = min(int(given) if given.isdecimal() and len(given) < 10 else 0, max(0, count - 1))
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


def _state(request: Request) -> Response:
    names_some = "run" in request.query_params
    runs = _chosen(request) if names_some else run_folders(request.app.state.folders)
    return PlainTextResponse(state(list(runs.values())))


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
    (summary,) = _summaries(request, [folder])[0].values()
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


def _summaries(request: Request, folders: Sequence[Path]) -> tuple[dict[str, Summary], list[str]]:
    """Returns the summaries of runs by label, and what is wrong with the others.

    They are those of before if the runs are as they were.
    """

    def read() -> tuple[dict[str, Summary], list[str]]:
        runs, damaged = gather(folders)
        summaries, failed = summarised(runs)
        return summaries, damaged + failed

    return _made(request, ("summaries", *folders, state(folders)), read)


def _made(request: Request, key: Hashable, make: Callable[[], Result]) -> Result:
    """Returns what is made once for a key; only the last few are kept."""
    known: dict[Hashable, Any] = request.app.state.made
    result: Result = known[key] if key in known else make()
    known[key] = result
    for old in [*known][:-KEPT]:
        known.pop(old, None)
    return result
