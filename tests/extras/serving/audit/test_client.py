"""A served engine is asked over HTTP."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from outrider.extras.serving.audit.client import OpenAIClient


class _Models(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "a model"}]}')

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_engines_on_this_machine_are_asked_past_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # where nothing listens
    monkeypatch.setenv("no_proxy", "")
    with HTTPServer(("127.0.0.1", 0), _Models) as server:
        server.timeout = 5
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        try:
            OpenAIClient(f"http://127.0.0.1:{server.server_port}", patience=5)
        finally:
            thread.join()
