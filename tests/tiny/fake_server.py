"""The HTTP server of every test that needs one: a function gives its answers."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, final


@final
@dataclass(frozen=True, slots=True)
class Asked:
    """A request: `body` is its JSON, or None for a GET."""

    path: str
    headers: Mapping[str, str]
    body: Any


@final
@dataclass(frozen=True, slots=True)
class Answer:
    """What comes back: a text, or anything else as JSON; bytes are all that is sent."""

    content: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def http_server(answer: Callable[[Asked], Answer], port: int = 0) -> ThreadingHTTPServer:
    """Returns a server of this machine that is yet to be run."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(None)

        def do_POST(self) -> None:
            self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def reply(self, body: Any) -> None:
            given = answer(Asked(self.path, self.headers, body))
            if isinstance(given.content, bytes):
                self.wfile.write(given.content)
                return
            is_text = isinstance(given.content, str)
            data = (given.content if is_text else json.dumps(given.content)).encode()
            self.send_response(given.status)
            for name, value in {**given.headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


@contextmanager
def served(answer: Callable[[Asked], Answer]) -> Iterator[str]:
    """Yields the address of a server that runs meanwhile."""
    with http_server(answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
