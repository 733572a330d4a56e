"""Processes of their own for commands, forked from a server that has imported everything once."""

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TextIO

from outrider.cli import main as cli

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        *("tiny.forked", "outrider.extras.bench.ours", "outrider.cli.commands.compare"),
        *("outrider.cli.commands.generate", "outrider.extras.training.command"),
        *("outrider.plugins.config", "outrider.targets.builtin", "torch.distributed.launcher.api"),
        *("transformers.models.auto.modeling_auto", "transformers.models.llama.modeling_llama"),
    ]
)


def start(*words: object, cwd: Path, ranks: int = 1) -> BaseProcess:
    """Starts a program, which prints into the files `stdout` and `stderr` beside its folder.

    words: those after `python`: -m outrider and its own, or a script and its arguments.
    ranks: with more than one, torchrun's agent starts it on so many.
    """
    arguments = ([str(word) for word in words], cwd, ranks)
    process = CONTEXT.Process(target=_run, args=arguments)
    process.start()
    return process


def run(*words: object, cwd: Path, ranks: int = 1) -> "subprocess.CompletedProcess[str]":
    """Runs a program to its end, as `start` does; a hang is an error."""
    process = start(*words, cwd=cwd, ranks=ranks)
    process.join(3600)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"{words} did not end")
    printed = (path.read_text() for path in _printed(cwd))
    return subprocess.CompletedProcess(words, process.exitcode, *printed)


def _printed(cwd: Path) -> list[Path]:
    return [cwd.with_name(f"{cwd.name}.{name}") for name in ("stdout", "stderr")]


def _run(words: list[str], cwd: Path, ranks: int) -> None:
    for number, path in enumerate(_printed(cwd), start=1):
        with path.open("w") as file:
            os.dup2(file.fileno(), number)
    os.chdir(cwd)
    if ranks == 1:
        _program(words)
    else:
        on_ranks(ranks, _program, words)


class Program:
    """A program of Outrider as `subprocess.Popen` starts it for the bench, but forked.

    command: the interpreter, and -m with the name of a module or a script with its arguments.
    """

    def __init__(self, command: Sequence[str], *, stderr: TextIO, **_: Any) -> None:
        assert command[0] == sys.executable
        (questions, stdin), (stdout, answers) = CONTEXT.Pipe(False), CONTEXT.Pipe(False)
        arguments = (list(command[1:]), questions, answers, stderr.name)
        self._process = CONTEXT.Process(target=_serve, args=arguments)
        self._process.start()
        questions.close()
        answers.close()
        self.stdin = os.fdopen(os.dup(stdin.fileno()), "w")
        self.stdout = os.fdopen(os.dup(stdout.fileno()))
        stdin.close()
        stdout.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def wait(self, timeout: float | None = None) -> None:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)

    def kill(self) -> None:
        self._process.kill()


def _serve(words: list[str], questions: Connection, answers: Connection, log: str) -> None:
    os.setpgid(0, 0)
    os.dup2(questions.fileno(), 0)
    os.dup2(answers.fileno(), 1)
    questions.close()
    answers.close()
    with open(log, "a") as errors:
        os.dup2(errors.fileno(), 2)
    sys.stdin = os.fdopen(0)
    if words[0] == "-m":
        runpy.run_module(words[1], run_name="__main__")
    else:
        sys.argv = words
        sys.path.insert(0, str(Path(words[0]).parent))
        runpy.run_path(words[0], run_name="__main__")


def _program(words: list[str]) -> None:
    try:
        if words[:2] == ["-m", "outrider"]:
            sys.argv = ["outrider", *words[2:]]
            cli.main()
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as stop:  # the agent waits for a result of each rank that does not fail
        if stop.code:
            raise
    finally:
        atexit._run_exitfuncs()  # which a process that was forked leaves out


def on_ranks(ranks: int, function: Callable[..., Any], *arguments: Any) -> dict[int, Any]:
    """Returns what a function returns on each rank, started as torchrun does, but forked.

    Raises:
        RuntimeError: a rank failed; the message has its exit code.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        run_id="tests",
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        local_addr="127.0.0.1",  # where the own name may not resolve
        max_restarts=0,
        start_method="fork",
    )
    try:
        returned: dict[int, Any] = elastic_launch(config, function)(*arguments)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        code = failure.exitcode
        raise RuntimeError(f"rank {rank} ended with status {code}: {failure.message}") from error
    return returned
