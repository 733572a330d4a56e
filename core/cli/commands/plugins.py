"""`outrider plugins`: the registered parts, where they come from, and which rules are lossless."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from outrider.base.terminal import plain, print_json, results
from outrider.cli.usage import argument_parser
from outrider.plugins.entry import Entry
from outrider.plugins.registry import installed


def plugins(arguments: Sequence[str]) -> None:
    """Prints a table of all registered parts."""
    description = "Lists every registered part, and the package that it came with."
    argument_parser("plugins", description=description).parse_args(arguments)
    table = Table(title="Registered parts")
    for heading in ("role", "name", "distribution", "plugin", "lossless"):
        table.add_column(heading)
    for entry in installed().entries:
        names = (entry.name, entry.distribution, entry.plugin)
        table.add_row(entry.role, *map(plain, names), lossless(entry))
    results().print(table)
    print_json([_plain(entry) for entry in installed().entries])


def _plain(entry: Entry) -> dict[str, Any]:
    """Returns a part as plain values; `lossless` is null where the question has no answer."""
    return {
        "role": entry.role,
        "name": entry.name,
        "distribution": entry.distribution,
        "plugin": entry.plugin,
        "lossless": {"yes": True, "LOSSY": False}.get(lossless(entry)),
    }


def lossless(entry: Entry) -> str:
    """Returns "yes" or "LOSSY" for an acceptance rule with its default arguments, "" for others.

    A rule that has no defaults gives "?".
    """
    if entry.role != "verifier":
        return ""
    try:
        return "yes" if entry.factory().lossless else "LOSSY"
    except TypeError:  # it needs arguments, and they may decide
        return "?"
