"""The server's process and its HTTP, with a stand-in for vLLM; `make engines` runs the real one."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from outrider.base.http import HttpClient, Refusal, ServerError
from outrider.extras.serving.vllm_server import Drafted, Server, cause


def gone(group: int) -> bool:
    """Returns whether a process group ends within a minute; zombies do not count."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if not any(_group(process) == group for process in Path("/proc").glob("[0-9]*")):
            return True
        time.sleep(0.05)
    return False


def _group(process: Path) -> int | None:
    """Returns the group of a process by its folder in /proc; None if it has ended."""
    try:
        state, _, group = (process / "stat").read_text().rpartition(")")[2].split()[:3]
    except OSError:
        return None
    return None if state == "Z" else int(group)


def groups(log: Path) -> list[int]:
    """Returns the process groups that write to a log."""
    ids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.path.samefile(process / "fd" / "1", log):
                ids.append(os.getpgid(int(process.name)))
        except OSError:
            continue
    return ids


def assert_does_not_start(reason: str, python: Path, log: Path, **options: Any) -> None:
    with (
        pytest.raises(ServerError, match=f"vLLM did not start{reason}"),
        Server(python, "m", log, **options),
    ):
        pass


def test_a_text_and_the_counters(vllm: Any, tmp_path: Path) -> None:
    python = vllm({"[1, 2]": [3, 4, 5]})
    speculative, environment = {"method": "custom_class"}, {"OUTRIDER_DRAFTER": "{}"}
    log = tmp_path / "log"
    with Server(
        python,
        "a model",
        log,
        speculative=speculative,
        environment=environment,
        options=["--enforce-eager"],
    ) as running:
        assert running.drafted() == Drafted()
        assert running.complete([1, 2], 2) == [3, 4]
        running.complete([1, 2], 2)
        assert running.drafted() == Drafted(4, 8, 4, (4, 0))  # of two engines
        with pytest.raises(Refusal, match=rf"no such prompt.* \({log}\)$"):
            running.complete([9], 2)
        (group,) = set(groups(log))
        for path, body in (("/v1/models", None), ("/v1/completions", {})):
            with pytest.raises(Refusal, match="401"):
                HttpClient(running.url).text(path, body)
    assert gone(group)
    assert running.key not in log.read_text()  # nor on the command line, which all users see
    words, drafter = json.loads(log.read_text().splitlines()[0])
    assert words[:4] == ["-m", "vllm.entrypoints.openai.api_server", "--model", "a model"]
    assert words[-5:-2] == ["--enforce-eager", "--speculative-config", json.dumps(speculative)]
    assert drafter == "{}"
    with pytest.raises(ServerError, match="refused"):
        running.complete([1, 2], 2)
    running.close()  # a second time does nothing


def test_the_server_and_its_children_end_when_the_caller_fails(vllm: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    started: list[int] = []

    def fail() -> None:
        started.extend(set(groups(log)))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Server(vllm(), "m", log):
        fail()
    (group,) = started
    assert gone(group)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this system call")
def test_the_server_ends_when_the_caller_is_killed(vllm: Any, tmp_path: Path) -> None:
    log, python = tmp_path / "log", vllm()
    script = (
        "import time; from pathlib import Path\n"
        "from outrider.extras.serving.vllm_server import Server\n"
        f"with Server(Path({str(python)!r}), 'm', Path({str(log)!r})):\n"
        "    print('up', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as user:
        assert user.stdout.readline() == b"up\n"
        (leader,) = set(groups(log))
        user.kill()
    end = time.monotonic() + 60
    while _group(Path(f"/proc/{leader}")) is not None and time.monotonic() < end:
        time.sleep(0.05)
    assert _group(Path(f"/proc/{leader}")) is None
    os.killpg(leader, signal.SIGKILL)  # the stand-in's child, which gets no signal


def test_a_start_that_takes_too_long(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    python.chmod(0o755)
    log = tmp_path / "log"
    assert_does_not_start(r" in 0\.2 s", python, log, patience=0.2)
    assert not groups(log)


def test_the_first_error_is_the_cause(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "INFO all is well\nTraceback (most recent call last):\n  raise ValueError(x)\n"
        "ERROR [core.py:1] ValueError: the cause\nRuntimeError: see above\n"
    )
    assert cause(log) == "ValueError: the cause"
    log.write_text("one\ntwo \n")
    assert cause(log) == "two"
    log.write_text("")
    assert cause(log) == "no message"
