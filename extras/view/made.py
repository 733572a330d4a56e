"""What the server makes once, each in a thread of its own, so that no page holds another."""

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

from starlette.requests import Request

PATIENCE = 5.0
"""The seconds after which a browser gets a page that says that the one it wants is being made."""

KEPT = 16
"""The pages and runs that are kept, to be shown again."""

Result = TypeVar("Result")


def made(
    request: Request, key: Hashable, make: Callable[[], Result], *, waits: bool = False
) -> Result:
    """Returns what is made once for a key, in a thread of its own; only the last few are kept.

    waits: whether to wait for as long as it takes.

    Raises `TimeoutError` if it takes longer than `PATIENCE`; it is made all the same.
    """
    known: dict[Hashable, Future[Any]] = request.app.state.made
    with request.app.state.lock:
        future = known.get(key)
        if future is None or (future.done() and future.exception() is not None):
            future = known[key] = Future()
            Thread(target=_make, args=(future, make), daemon=True).start()
        for old in [name for name, each in known.items() if each.done()][:-KEPT]:
            del known[old]
    result: Result = future.result(None if waits else PATIENCE)
    return result


def _make(future: Future[Any], make: Callable[[], object]) -> None:
    try:
        future.set_result(make())
    except BaseException as error:  # noqa: BLE001  who waits for it raises it
        future.set_exception(error)
