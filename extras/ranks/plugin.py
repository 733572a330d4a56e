"""Registers the engine that spreads a model over ranks, and what a command does on each of them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from outrider.extras.ranks.torchrun import world
from outrider.plugins.hookspecs import Command, Register, hookimpl


@hookimpl
def register_engines(register: Register) -> None:
    register("ranks", "outrider.extras.ranks.engine:Ranks")


@hookimpl
def wrap_command(command: Command, arguments: Sequence[str]) -> AbstractContextManager[None]:
    if world() == 1:
        return nullcontext()
    from outrider.extras.ranks.launch import on_each_rank  # imports much

    return on_each_rank(command, arguments)
