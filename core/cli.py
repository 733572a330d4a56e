"""The console script: `outrider generate | beams | compare | bench | check | train | serve-config | ...`."""

import os
import re
import signal
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.markup import escape

from outrider.errors import ConfigError, OutriderError, TargetError, nearest, require
from outrider.runtime.launch import FIELD, lost, rank, world

USAGE = """\
usage: outrider COMMAND [SETTING=VALUE ...]

  generate   write a text:                outrider generate prompt="Name three rivers."
  beams      beam search, sped up:        outrider beams prompt="Name three rivers." width=4
  compare    drafters side by side:       outrider compare drafters=[none,prompt_lookup]
  bench      beside other libraries:      outrider bench drafter=prompt_lookup
  check      prove a drafter or rule:     outrider check drafter=prompt_lookup
  train      train a drafter or policy:   outrider train drafter=eagle3
  serve-config  the same drafter in vLLM: outrider serve-config drafter=bigram
  serve-check   how it does there:        outrider serve-check drafters=[bigram]
  report     gather runs of compare:      outrider report multirun/compare
  plugins    what is registered, and by whom

Each command but the last two is a Hydra app: `outrider COMMAND --help` shows its settings,
`--multirun` sweeps over them."""

TASKS = ("generate", "beams", "compare", "bench", "check", "train", "serve-config", "serve-check")
"""The commands that are Hydra apps, each a function of its name in a module of its name."""

COMMANDS = (*TASKS, "report", "plugins")
SWEEP = ("-m", "--multirun")

SPREAD = ("generate", "compare")
"""The commands that run on several ranks."""


def main() -> None:
    """Runs the command in `sys.argv`; a fault is one line on stderr and exit status 1."""
    command, *rest = sys.argv[1:] or ["--help"]
    try:
        if command in ("-h", "--help", "help"):
            print(USAGE)
        elif command == "plugins":
            from outrider.commands.plugins import plugins

            plugins()
        elif command == "report":
            from outrider.commands.report import run

            run(rest)
        else:
            _run(command, rest)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except OutriderError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _run(command: str, overrides: list[str]) -> None:
    task = _task(command)
    # Imported here, so that `outrider --help` is quick.
    import hydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from outrider.plugins.config import MODULE, build, compose, explain, install
    from outrider.plugins.registry import installed

    install(installed())
    # Hydra's parser takes a flag only before the overrides; people put it anywhere.
    flags = [word for word in overrides if word in SWEEP]
    rest = [word for word in overrides if word not in SWEEP]
    if world() > 1:
        require(not flags, "--multirun", True, "a single run where torchrun has started it")
        signal.signal(signal.SIGTERM, _stopped)
    sys.argv = [f"outrider {command}", *flags, *(rest if flags else map(literal, rest))]
    # Hydra then lets errors through, rather than printing a trace and ending the process.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    app = hydra.main(version_base="1.3", config_path=f"pkg://{MODULE}", config_name=command)
    try:
        if rank():  # no run of its own: it takes part in the first rank's passes to the end
            _guarded(lambda config: build(config.target), command, compose(command, sys.argv[1:]))
        app(partial(_guarded, task, command))()
    except (HydraException, OmegaConfBaseException) as error:
        _fail(explain(error, command, overrides))


def literal(override: str) -> str:
    """Returns the override with a prompt as it was typed: commas, quotes, brackets and all.

    To Hydra they would be a sweep, a quotation or a list. A prompt in quotation marks of its own, or
    a list of ids in brackets, is left to Hydra.
    """
    key, equals, text = override.partition("=")
    if key != "prompt" or not equals or text[:1] in ("'", '"', "["):
        return override
    # A backslash stands for itself but before a quote, where it has to be doubled.
    escaped = re.sub(r'(\\*)("|$)', lambda found: 2 * found[1] + ('\\"' if found[2] else ""), text)
    return 'prompt="' + escaped.replace("${", "\\${") + '"'


def _guarded(task: Callable[[Any], None], command: str, config: Any) -> None:
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf.errors import MissingMandatoryValue

    from outrider.plugins.config import explain

    try:
        _check_spread(config, command)
        task(config)
    except (OutriderError, MissingMandatoryValue) as error:
        # A job of a sweep leaves the word to Hydra, which names the job and runs the others.
        if HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN:
            raise
        _fail(explain(error, command, ()))


def _check_spread(config: Any, command: str) -> None:
    """Raises `ConfigError` where a run is on several ranks and its target is not, or can't be."""
    asked = (config.get("target") or {}).get("tensor_parallel", False)
    if world() > 1 and not asked:
        raise ConfigError(
            f"{FIELD}={asked}: expected true, torchrun has started {world()} processes"
        )
    if asked and command not in SPREAD:
        commands = " and ".join(SPREAD)
        raise ConfigError(
            f"{FIELD}={asked}: expected false, of the commands {commands} can do that"
        )


def _stopped(*_: Any) -> None:
    """Ends the run as an error does, with what it has on disk, when torchrun stops this rank."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not lost():  # otherwise it is ending already
        raise TargetError("stopped by torchrun, since another rank has ended or it was told to")


def _task(command: str) -> Callable[[Any], None]:
    if command not in TASKS:
        raise ConfigError(f"{command!r}: {nearest(command, COMMANDS)}")
    name = command.replace("-", "_")
    task: Callable[[Any], None] = getattr(import_module(f"outrider.commands.{name}"), name)
    return task


def _fail(line: str) -> None:
    who = f"rank {rank()}: " if rank() else ""
    Console(stderr=True, soft_wrap=True).print(f"[red]outrider:[/] {who}{escape(line)}")
    sys.exit(1)


if __name__ == "__main__":
    main()
