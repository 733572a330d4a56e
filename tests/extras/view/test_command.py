"""`outrider view`: the address, and what is refused."""

import re
import socket
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.types import ASGIApp

from outrider.extras.view.command import PATIENCE
from outrider.extras.view.server import app


def test_the_address_has_a_token_and_is_of_this_machine(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[str] = []

    def note(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        assert server.config.timeout_graceful_shutdown == PATIENCE
        bound.append(sockets[0].getsockname()[0])

    monkeypatch.setattr(uvicorn.Server, "run", note)
    addresses = []
    for _ in range(2):
        printed = run.done("view", str(tmp_path))
        addresses += re.findall(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", printed)
    assert bound == ["127.0.0.1"] * 2
    assert len({address[-32:] for address in addresses}) == 2


def test_a_port_in_use_is_named(run: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, _, complaint = run("view", str(tmp_path), "--port", str(port))
    assert status == 1
    assert f"--port={port}" in complaint


def test_a_page_that_writes_texts_is_served_when_asked_for(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays: list[bool] = []

    def note(folders: Any, token: str, player: Any = None) -> ASGIApp:
        plays.append(player is not None)
        return app(folders, token, player)

    monkeypatch.setattr("outrider.extras.view.server.app", note)
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: None)
    assert run("view", "--play", "tabular")[0] == 0  # without any run
    assert run("view", str(tmp_path))[0] == 0
    assert plays == [True, False]
    assert "target='smollm': did you mean 'smollm2'" in run.refused("view", "--play", "smollm")
