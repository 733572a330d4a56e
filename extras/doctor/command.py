"""`outrider doctor`: what is installed, what the machine can do, and whether Outrider works."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from outrider.base.errors import OutriderError
from outrider.base.terminal import print_json, remarks, results
from outrider.cli.usage import argument_parser
from outrider.lab.measuring.machine import busy


def doctor(arguments: Sequence[str]) -> None:
    """Prints the findings.

    Raises `OutriderError` if something is wrong; the message has a line for each fault.
    """
    parser = argument_parser(
        "doctor",
        description="Says what is installed, what this machine can do, and whether Outrider works.",
    )
    parser.parse_args(arguments)
    from outrider.extras.doctor.examination import examine  # which help need not

    notes = remarks()
    with notes.status("Examining this machine"):
        facts, faults = examine()
    print_json({**facts, "faults": faults})
    _print(facts)
    if faults:
        raise OutriderError("\n".join(faults))
    found = facts["machine"]
    if reason := busy(found["load in the last minute"], found["cores"]):
        notes.print(f"[yellow]Healthy, but {reason}: times measured now can't be trusted.[/]")
    else:
        notes.print("[green]Healthy.[/]")


def _print(facts: Mapping[str, Mapping[str, Any]]) -> None:
    table = Table(show_header=False, box=None)
    table.add_column(no_wrap=True)
    words = {"None": "none", "True": "yes", "False": "no"}
    for name, values in facts.items():
        table.add_row(f"[bold]{escape(name)}[/]")
        for key, value in values.items():
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            key = key.replace("memory_gib", "memory (GiB)")
            table.add_row(f"  {escape(key)}", escape(words.get(text, text)))
    results().print(table)
