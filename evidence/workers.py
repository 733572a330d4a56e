"""One comparison by several workers, one of which is killed, against the same by one process.

python evidence/workers.py --prompts 40 --workers 4
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from outrider.lab.runs.run import Run, load
from outrider.lab.runs.summary import Summary

COMPARE = (sys.executable, "-m", "outrider", "compare")
TASK = "Worker.measure"
"""What Ray calls a process while it measures a question."""
THREADS = {"OMP_NUM_THREADS": "1"}
"""Sums of several threads round otherwise than those of one."""
THINGS = ("rivers", "tools", "books", "animals", "cities", "games", "meals", "inventions")
MARK = "OUTRIDER_EVIDENCE"
"""An environment variable that tells the processes of this run from any others."""


def main(prompts: int, workers: int, tokens: int) -> int:
    """Prints what differs, and returns the exit status: 0 if nothing but time does."""
    settings = (
        "data=jsonl", f"max_new_tokens={tokens}", "drafters=[none,prompt_lookup,bigram]",
        "sampling=standard", "sampling.seed=1", "cache=false", "reports=[]",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        one, many = Path(folder) / "one", Path(folder) / "many"
        data = Path(folder) / "prompts.jsonl"
        data.write_text(
            "".join(json.dumps({"prompt": prompt_of(n)}) + "\n" for n in range(prompts))
        )
        settings = (*settings, f"data.path={data}")
        alone = [*COMPARE, *settings, f"hydra.run.dir={one}"]
        subprocess.run(alone, check=True, env=os.environ | THREADS)
        command = [*COMPARE, *settings, f"hydra.run.dir={many}", f"workers={workers}"]
        comparison = subprocess.Popen(command, env={**os.environ, **THREADS, MARK: folder})
        killed = kill_worker(many, folder, comparison)
        if comparison.wait():
            return comparison.returncode
        run, expected_run = load(many), load(one)
        figures = [timeless(Summary(each)) for each in (run, expected_run)]
    found, expected = counted(run), counted(expected_run)
    same = found == expected and figures[0] == figures[1]
    print(f"{prompts} prompts by {workers} workers, of which process {killed} was killed;", end=" ")
    print(f"{len(expected)} measurements, {'all' if same else 'NOT ALL'} equal but for seconds")
    return not same


def prompt_of(number: int) -> str:
    """Returns a prompt of its own for each number."""
    return (
        f"Name {2 + number // len(THINGS)} {THINGS[number % len(THINGS)]}, with a reason for each."
    )


def kill_worker(folder: Path, mark: str, comparison: "subprocess.Popen[bytes]") -> int:
    """Kills a process that measures, once something has been measured."""
    while comparison.poll() is None:
        with suppress(OSError):
            if len((folder / "measurements.jsonl").read_text().splitlines()) >= 12:
                for worker in workers_of(mark):
                    os.kill(worker, signal.SIGKILL)
                    return worker
        time.sleep(0.1)
    raise SystemExit("the comparison ended before a worker could be killed")


def workers_of(mark: str) -> list[int]:
    """Returns the processes of a run that measure a question."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_worker = TASK in (process / "cmdline").read_text()
            if is_worker and f"{MARK}={mark}" in (process / "environ").read_text():
                found.append(int(process.name))
    return found


def timeless(summary: Summary) -> list[object]:
    """Returns the figures of each drafter that no clock decides."""
    return [
        (row.drafter, row.counts, row.rates["alpha"], row.rates["alpha_tested"],
         row.rates["block_efficiency"])
        for row in summary.rows
    ]  # fmt: skip


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
