"""`outrider plugins`: what is registered, where from, lossless or not."""

from rich.console import Console
from rich.table import Table

from outrider.plugins.registry import Entry, installed


def plugins() -> None:
    """Prints a table of all that is registered."""
    table = Table(title="Registered parts")
    for column in ("role", "name", "distribution", "plugin", "lossless"):
        table.add_column(column)
    for entry in installed().entries:
        table.add_row(entry.role, entry.name, entry.distribution, entry.plugin, lossless(entry))
    Console().print(table)


def lossless(entry: Entry) -> str:
    """Returns whether a rule is lossless as it comes, without arguments."""
    if entry.role != "verifier":
        return ""
    try:
        return "yes" if entry.factory().lossless else "LOSSY"
    except TypeError:  # it takes arguments, on which the answer may depend
        return "?"
