"""The console script: finds the command in `sys.argv`, runs it, and prints errors as one line."""

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from importlib.metadata import version
from typing import Any

from rich.console import Console
from rich.markup import escape

from outrider.base.errors import ANY_FAULT, ConfigError, OutriderError, described, require
from outrider.base.interruption import Terminated, advice_in, out_of_memory, terminable
from outrider.base.terminal import (
    JSON,
    QUIET,
    TRACEBACK,
    flushed,
    give_up_output,
    is_json,
    is_quiet,
    prepare_output,
    switched_on,
    visible,
)
from outrider.cli.arguments import SWEEP, arranged
from outrider.cli.completion import completions
from outrider.cli.usage import JSON_FLAG, QUIET_FLAG, TRACEBACK_FLAG, command_help, usage
from outrider.data.prompts import input_kept, is_encodable
from outrider.plugins.entry import Entry
from outrider.plugins.hookspecs import Command
from outrider.plugins.registry import command_entry, installed

HELP = ("-h", "--help")

ALL_SETTINGS = "--help-all"
"""Prints all settings, as Hydra's own `--help` does."""

COMPLETION = ("-sc", "--shell-completion")
"""Hydra's completion of settings in a shell."""

WHERE = "; --traceback shows where"
"""What is said behind an error whose code may be wrong."""


def main() -> None:
    """Runs the command in `sys.argv`; an error is one line on stderr, and exit status 1.

    A line below it says how to go on, if something was finished before.
    """
    try:
        flags = (QUIET_FLAG, JSON_FLAG, TRACEBACK_FLAG)
        # An ASCII locale has Python give each byte of UTF-8 as half of a surrogate pair.
        words = [os.fsencode(word).decode(errors="surrogateescape") for word in sys.argv[1:]]
        arguments = [word for word in words if word not in flags]
        as_json = JSON_FLAG in sys.argv
        prepare_output()
        logging.raiseExceptions = False  # a log that can't be written is no error of its own
        with (
            flushed(),
            terminable(),
            input_kept(),
            switched_on(QUIET, as_json or QUIET_FLAG in sys.argv),
            switched_on(JSON, as_json),
            switched_on(TRACEBACK, TRACEBACK_FLAG in sys.argv),
        ):
            _run_or_fail(*arguments or ["--help"])
    except KeyboardInterrupt as error:
        is_terminated = isinstance(error, Terminated)
        print("terminated" if is_terminated else "interrupted", file=sys.stderr)
        _print_advice(error)
        sys.exit(143 if is_terminated else 130)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001  whatever a part's code can raise
        _fail(_line_of(error), error)


def _run_or_fail(*words: str) -> None:
    """Runs a command; its error is printed while a second signal is still no end of the process."""
    try:
        _run(*words)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001  whatever a part's code can raise
        _fail(_line_of(error), error)


def _line_of(error: BaseException) -> str:
    """Returns the line for an error, whatever asking it for its words raises."""
    with suppress(*ANY_FAULT):
        if isinstance(error, OutriderError):
            is_raised = error.part is not None and not isinstance(error.__cause__, OutriderError)
            return f"{error}{WHERE if is_raised else ''}"
        if isinstance(error, OSError) and error.strerror:  # of standard output, if it has no file
            return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        if line := out_of_memory(error):
            return line
    return f"{described(error)}{WHERE}"


def _run(command: str, *arguments: str) -> None:
    for argument in (command, *arguments):
        require(is_encodable(argument), "argument", argument, "text in UTF-8")
    if command in ("-h", "--help", "help"):
        print(usage())
    elif command in ("-V", "--version", "version"):
        print(f"outrider {version('outrider')}")
    elif command in COMPLETION:
        _complete(list(arguments))
    else:
        _run_command(command_entry(command), arguments)


def _run_command(entry: Entry, arguments: Sequence[str]) -> None:
    command: Command = entry.source
    if is_json() and not command.json:
        names = (name for name, other in installed().commands.items() if other.json)
        raise ConfigError(f"{JSON_FLAG}: expected one of {', '.join(names)}")
    if not {*HELP, "--version"}.intersection(arguments):
        entry.check_extra()
    if command.plain:
        entry.factory(arguments)
    elif "--version" in arguments:
        print(f"outrider {version('outrider')}")
    elif any(word in HELP for word in arguments):
        print(command_help(command))
    else:
        _run_hydra_command(entry, list(arguments))


def _run_hydra_command(entry: Entry, arguments: list[str]) -> None:
    command: Command = entry.source
    # Imported here to keep `outrider --help` quick.
    import hydra
    from hydra.core.hydra_config import HydraConfig

    from outrider.cli.sweep import check_jobs
    from outrider.plugins.config import is_single_run, run_single
    from outrider.plugins.explaining import HYDRAS, explain_error
    from outrider.plugins.options import CONF_MODULE, offer_options, only_hydras_entries
    from outrider.plugins.presets import check_own_presets

    offer_options()
    is_completion = any(argument in COMPLETION for argument in arguments)
    program = "outrider" if is_completion else f"outrider {command.name}"
    words = ["--help" if argument == ALL_SETTINGS else argument for argument in arguments]
    sys.argv = [program, *arranged(command, words)]
    if is_quiet() and SWEEP in sys.argv:
        sys.argv.append("hydra.hydra_logging.root.level=WARNING")  # it reports each job
    # This makes Hydra raise errors; otherwise it prints a traceback and exits.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    app = hydra.main(
        version_base="1.3", config_path=f"pkg://{CONF_MODULE}", config_name=command.name
    )
    run = partial(_run_guarded, entry)
    try:
        check_own_presets(sys.argv[1:])
        with ExitStack() as stack:
            for wrapper in installed().wrappers:
                stack.enter_context(wrapper(command, sys.argv[1:]))
            if is_single_run(sys.argv[1:]):
                run_single(run, command.name, sys.argv[1:])
            else:
                check_jobs(command, sys.argv[1:])
                with only_hydras_entries():
                    app(run)()
    except HYDRAS as error:
        _fail(explain_error(error, command.name, sys.argv[1:]), error)
    except (OutriderError, ModuleNotFoundError, OSError):
        raise
    except Exception as error:
        if SWEEP in sys.argv and HydraConfig.initialized():  # one of a job, which names its part
            raise
        _fail(explain_error(error, command.name, sys.argv[1:]), error)


def _complete(arguments: list[str]) -> None:
    """Installs Hydra's completion, or prints how the line in COMP_LINE can go on."""
    if any(argument.startswith("query=") for argument in arguments):
        print(" ".join(completions(os.environ.get("COMP_LINE", ""))))
        return
    commands = installed().of("command").values()
    first = next(entry for entry in commands if not entry.source.plain)  # which is not run
    _run_hydra_command(first, [COMPLETION[0], *arguments])


def _run_guarded(entry: Entry, config: Any) -> Any:
    """Runs a command on its settings; an error ends the process with one line.

    Returns what the command returns: the number that a sweeper optimises.
    """
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf.errors import OmegaConfBaseException

    from outrider.cli.sweep import say_what_only_sweeps_use
    from outrider.plugins.explaining import explain_error
    from outrider.plugins.reading import settings_of

    command: Command = entry.source
    try:
        kind, hydra = command.settings_class, HydraConfig.get()
        say_what_only_sweeps_use(hydra)
        os.chdir(hydra.runtime.cwd)  # paths are the user's, wherever hydra.job.chdir has led
        return entry.factory(config if kind is None else settings_of(command, config))
    except Exception as error:
        # In a sweep Hydra reports the error: it names the job and runs the others.
        if HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN:
            raise
        is_setting = isinstance(error, OmegaConfBaseException)
        line = explain_error(error, command.name, ()) if is_setting else _line_of(error)
        _fail(line, error)


def _fail(line: str, error: BaseException) -> None:
    """Prints an error, and how to go on after it, and ends the process.

    Nothing is printed if nobody reads standard output any more.
    """
    give_up_output()
    if isinstance(error, BrokenPipeError):
        sys.exit(1)
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(f"[red]outrider:[/] {escape(visible(line))}")
    _print_advice(error)
    sys.exit(1)


def _print_advice(error: BaseException) -> None:
    for line in advice_in(error):
        print(visible(line), file=sys.stderr)


if __name__ == "__main__":
    main()
