"""`outrider plugins`: the registered parts, what each is and needs, and where it comes from."""

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.base.terminal import plain, print_json, results
from outrider.cli.about import about, needs
from outrider.cli.usage import argument_parser
from outrider.plugins.entry import Entry
from outrider.plugins.registry import installed

OWN = "outrider"
"""The distribution of the built-in parts."""

LOSSLESS = {True: "yes", False: "LOSSY", None: "?"}


def plugins(arguments: Sequence[str]) -> None:
    """Prints a table of the registered parts for each role."""
    description = "Lists every registered part: what it is and needs, and who it came from."
    argument_parser("plugins", description=description).parse_args(arguments)
    facts = [facts_of(entry) for entry in installed().entries]
    for role in dict.fromkeys(part["role"] for part in facts):
        table = Table(title=role, title_justify="left", box=SIMPLE_HEAD, collapse_padding=True)
        # Words are wrapped in a narrow terminal, so that nothing is cut.
        table.add_column("name", no_wrap=True)
        table.add_column("what it is", overflow="fold", ratio=3)
        table.add_column("needs", overflow="fold", ratio=2)
        if role == "verifier":
            table.add_column("lossless", no_wrap=True)
        for part in (part for part in facts if part["role"] == role):
            owner = "" if part["distribution"] == OWN else f"[{part['distribution']}]"
            what = " ".join(filter(None, (part["about"], owner)))
            cells = [part["name"], what, ", ".join(part["needs"])]
            cells += [LOSSLESS[part["lossless"]]] * (role == "verifier")
            table.add_row(*map(plain, cells))
        results().print(table)
    print_json(facts)


def facts_of(entry: Entry) -> dict[str, Any]:
    """Returns a part as plain values; `lossless` is null where the question has no answer."""
    return {
        "role": entry.role,
        "name": entry.name,
        "about": about(entry),
        "needs": needs(entry),
        "distribution": entry.distribution,
        "plugin": entry.plugin,
        "lossless": is_lossless(entry),
    }


def is_lossless(entry: Entry) -> bool | None:
    """Returns whether an acceptance rule with its default arguments is; None for all others."""
    if entry.role != "verifier":
        return None
    try:
        return bool(entry.factory().lossless)
    except TypeError:  # it needs arguments, and they may decide
        return None
