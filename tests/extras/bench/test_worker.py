"""A worker answers line by line, says why it failed, and ends with the bench."""

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from outrider.extras.bench import peer
from outrider.extras.bench.worker import BenchError, Worker

TALKER = f"""
import os
import subprocess
import sys
sys.path.insert(0, {str(Path(peer.__file__).parent)!r})  # without Outrider, as peers do
from peer import serve
"""
TALKER += """

def start(given):
    print("noise on stdout")
    if given.get("broken"):
        raise ValueError("no such model")
    def answer(question):
        if question.get("who"):
            helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
            return {"pids": [os.getpid(), helper.pid]}
        if question.get("die"):
            sys.stderr.write("out of luck\\n")
            sys.stderr.flush()
            os._exit(3)
        return {"double": 2 * question["number"]}
    return answer

serve(start)
"""


@pytest.fixture
def hire(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    script = tmp_path / "talker.py"
    script.write_text(TALKER)

    def make(**given: Any) -> Worker:
        worker = Worker("talker", [sys.executable, str(script)], given, tmp_path / "log")
        request.addfinalizer(worker.close)
        return worker

    return make


def test_a_worker_answers_and_reports_seconds_and_memory(hire: Any) -> None:
    worker = hire()
    assert worker.start_seconds > 0
    answer = worker.ask({"number": 4})
    assert answer["double"] == 8 and answer["seconds"] >= 0
    assert 1e6 < worker.peak < 1e10
    assert worker.ask({"number": 5})["double"] == 10


def _state(pid: int) -> str:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return ""
    return status.rpartition(") ")[2][0]


def _soon(pids: list[int], states: str) -> bool:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if all(_state(pid) in states for pid in pids):
            return True
        time.sleep(0.05)
    return False


def test_a_worker_and_its_children_are_stopped_between_questions(hire: Any) -> None:
    worker = hire()
    pids = worker.ask({"who": True})["pids"]
    assert _soon(pids, "T")
    assert worker.ask({"number": 2})["double"] == 4
    worker.close()
    assert _soon(pids[:1], "") and _soon(pids[1:], "SR")
    os.kill(pids[1], 9)


@pytest.fixture(params=[0, 1], ids=["adopted by init", "adopted in the same session"])
def adopted(request: pytest.FixtureRequest) -> Iterator[None]:
    adopt = partial(ctypes.CDLL(None).prctl, 36)  # PR_SET_CHILD_SUBREAPER
    adopt(request.param)
    yield
    adopt(0)


@pytest.mark.usefixtures("adopted")
def test_a_worker_does_not_outlive_a_bench_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "talker.py"
    script.write_text(TALKER)
    bench = f"""
import os, signal, sys
from pathlib import Path
from outrider.extras.bench import peer
from outrider.extras.bench.worker import Worker
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
worker = Worker("talker", [sys.executable, {str(script)!r}], {{}}, Path({str(tmp_path / "log")!r}))
print(*worker.ask({{"who": True}})["pids"], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", bench], check=False, capture_output=True, text=True
    )
    assert _soon([int(pid) for pid in done.stdout.split()], "Z")


def test_a_failed_question_is_reported_and_the_worker_continues(hire: Any) -> None:
    worker = hire()
    with pytest.raises(BenchError, match="talker: KeyError: 'number'"):
        worker.ask({})
    assert worker.ask({"number": 1})["double"] == 2


def test_a_worker_that_does_not_start(hire: Any, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="talker: ValueError: no such model"):
        hire(broken=True)
    with pytest.raises(BenchError, match="nobody: /nowhere can't be run: No such file"):
        Worker("nobody", ["/nowhere"], {}, tmp_path / "log")


def test_a_worker_that_dies(hire: Any) -> None:
    worker = hire()
    with pytest.raises(BenchError, match="talker is gone: out of luck"):
        worker.ask({"die": True})
