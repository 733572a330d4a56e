"""`outrider plugins`: the registered parts, what each is and needs, and where it comes from."""

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.base.terminal import plain, print_json, results
from outrider.cli.usage import argument_parser
from outrider.extras.authoring.about import about, needs
from outrider.plugins.entry import Entry
from outrider.plugins.registry import installed

OWN = "outrider"
"""The distribution of the built-in parts."""


def plugins(arguments: Sequence[str]) -> None:
    """Prints a table of the registered parts for each role."""
    description = "Lists every registered part: what it is and needs, and who it came from."
    argument_parser("plugins", description=description).parse_args(arguments)
    entries = installed().entries
    for role in dict.fromkeys(entry.role for entry in entries):
        of_role = [entry for entry in entries if entry.role == role]
        table = Table(title=role, title_justify="left", box=SIMPLE_HEAD, collapse_padding=True)
        # Words are wrapped in a narrow terminal, so that nothing is cut.
        table.add_column("name", no_wrap=True)
        table.add_column("what it is", overflow="fold", ratio=3)
        table.add_column("needs", overflow="fold", ratio=2)
        if role == "verifier":
            table.add_column("lossless", no_wrap=True)
        for entry in of_role:
            owner = "" if entry.distribution == OWN else f"[{entry.distribution}]"
            what = " ".join(filter(None, (about(entry), owner)))
            cells = [entry.name, what, ", ".join(needs(entry))]
            table.add_row(*map(plain, cells), *([lossless(entry)] if role == "verifier" else []))
        results().print(table)
    print_json([_plain(entry) for entry in entries])


def _plain(entry: Entry) -> dict[str, Any]:
    """Returns a part as plain values; `lossless` is null where the question has no answer."""
    return {
        "role": entry.role,
        "name": entry.name,
        "about": about(entry),
        "needs": needs(entry),
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
