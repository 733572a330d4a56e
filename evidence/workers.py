"""One comparison over workers, one of which is killed, against the same comparison by one worker.

python evidence/workers.py --prompts 40 --workers 4
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from outrider.extras.view.pooling import pooled
from outrider.lab.runs.store import Run, load

COMPARE = (sys.executable, "-m", "outrider", "compare")
TASK = "run_in_worker"
"""The name that Ray gives to a process that runs a job."""


def main(prompts: int, workers: int, tokens: int) -> int:
    """Prints what differs, and returns the exit status: 0 if nothing but time does."""
    settings = (
        f"data.limit={prompts}",
        f"max_new_tokens={tokens}",
        "drafters=[none,prompt_lookup,bigram]",
        "sampling=standard",
        "sampling.seed=1",
    )
    with tempfile.TemporaryDirectory() as folder:
        one, many = Path(folder) / "one", Path(folder) / "many"
        subprocess.run([*COMPARE, *settings, f"hydra.run.dir={one}"], check=True)
        shards = ",".join(f"{number}/{workers}" for number in range(1, workers + 1))
        launcher = ("hydra/launcher=outrider_ray", f"hydra.launcher.workers={workers}")
        sharded = ("--multirun", f"hydra.sweep.dir={many}", f"shard={shards}", *launcher)
        sweep = subprocess.Popen([*COMPARE, *sharded, *settings])
        killed = kill_worker(many / "0", sweep)
        if sweep.wait():
            return sweep.returncode
        (run,) = pooled([load(many / str(number)) for number in range(workers)])
        alone = load(one)
    found, expected = counted(run), counted(alone)
    same = found == expected
    print(
        f"{prompts} prompts over {workers} workers, of which process {killed} was killed;", end=" "
    )
    print(f"{len(expected)} measurements, {'all' if same else 'NOT ALL'} equal but for seconds")
    return not same


def kill_worker(folder: Path, sweep: "subprocess.Popen[bytes]") -> int:
    """Kills the process that works in a folder, once it has measured something."""
    while sweep.poll() is None:
        with suppress(OSError):
            if len((folder / "measurements.jsonl").read_text().splitlines()) >= 2:
                worker = next(process for process in workers_in(folder))
                os.kill(worker, signal.SIGKILL)
                return worker
        time.sleep(0.1)
    raise SystemExit("the sweep ended before a worker could be killed")


def workers_in(folder: Path) -> list[int]:
    """Returns the processes of Ray that have a file in a folder open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            files = [os.readlink(file) for file in (process / "fd").iterdir()]
            is_worker = TASK in (process / "cmdline").read_text()
            if is_worker and any(Path(file).is_relative_to(folder) for file in files):
                found.append(int(process.name))
    return found


def counted(run: Run) -> dict[tuple[str, int, str, str], object]:
    """Returns what was measured by prompt, turn, drafter and protocol, seconds apart."""
    return {
        (each.prompt, each.turn, each.drafter, each.protocol): each.overlap
        or [(step.tokens, step.origins, step.pieces) for step in each.decoding.steps]
        for each in run.measurements
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=24)
    sys.exit(main(**vars(parser.parse_args())))
