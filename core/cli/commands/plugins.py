"""`outrider plugins`: the registered parts, what each is and needs, and where it comes from."""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import platformdirs
from rich.table import Table

from outrider.base.contents import json_in
from outrider.base.errors import ConfigError, nearest
from outrider.base.folders import write_if_possible
from outrider.base.terminal import plain, print_json, remarks, results
from outrider.cli.about import about, in_brief, needs
from outrider.cli.usage import argument_parser
from outrider.plugins.entry import Entry
from outrider.plugins.registry import installed

LOSSLESS = {True: "yes", False: "no"}
"""Whether a rule is lossless, in words."""


def plugins(arguments: Sequence[str]) -> None:
    """Prints a line for each registered part, or all about those of a name."""
    description = "Lists what is registered: parts by role, or all about the part of a name."
    parser = argument_parser("plugins", description=description)
    parser.add_argument("words", nargs="*", metavar="ROLE or NAME", help="such as drafter eagle")
    words, parts = set(parser.parse_args(arguments).words), kept_facts(installed().entries)
    roles, names = ({part[field] for part in parts} for field in ("role", "name"))
    for word in words - roles - names:
        raise ConfigError(f"{word!r}: expected a role or a name; {nearest(word, roles | names)}")
    facts = [
        part
        for part in parts
        if (part["role"] in words or not words & roles)
        and (part["name"] in words or words <= roles)
    ]
    if words <= roles:
        for role in dict.fromkeys(part["role"] for part in facts):
            results().print(_list(role, [part for part in facts if part["role"] == role]))
        remarks(stderr=False).print("* needs something first: `outrider plugins NAME` says what")
    else:
        for part in facts:
            results().print(_details(part))
    print_json(facts)


def _list(role: str, parts: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title=role, title_justify="left", box=None, show_header=False)
    room = results().width - max(len(part["name"]) for part in parts) - 5
    for part in parts:
        lossy = "LOSSY: " * (part["lossless"] is False)
        name = part["name"] + "*" * bool(part["needs"])
        table.add_row(plain(name), plain(lossy + in_brief(part["about"], room - len(lossy))))
    return table


def _details(part: Mapping[str, Any]) -> Table:
    table = Table(box=None, show_header=False)
    for name, value in part.items():
        if value not in (None, []):
            text = ", ".join(value) if isinstance(value, list) else LOSSLESS.get(value, value)
            table.add_row(name, plain(text))
    return table


def kept_facts(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Returns the facts of parts, kept in the user's cache: to find them imports every part."""
    path, state = Path(platformdirs.user_cache_path("outrider")) / "plugins.json", _state(entries)
    with suppress(OSError, ValueError, KeyError, TypeError):
        if (kept := json_in(path))["state"] == state:
            return list(kept["facts"])
    facts = [facts_of(entry) for entry in entries]
    write_if_possible(path, json.dumps({"state": state, "facts": facts}))
    return facts


def _state(entries: Sequence[Entry]) -> str:
    """Returns a hash of what facts come of: parts, files of their packages, what is installed."""
    parts = [(entry.claim, entry.path, entry.plugin, entry.extra) for entry in entries]
    places = [*map(Path, sys.path)]  # an installation adds to one of them
    for name in {".".join(entry.path.split(".")[:depth]) for entry in entries for depth in (1, 2)}:
        with suppress(ImportError, ValueError):  # the part says what is wrong with its module
            spec = find_spec(name)
            for place in (spec.submodule_search_locations or [str(spec.origin)]) if spec else ():
                places += [Path(place), *Path(place).rglob("*.py")]
    times = sorted((str(place), place.stat().st_mtime_ns) for place in places if place.exists())
    return hashlib.sha256(repr([parts, times]).encode()).hexdigest()


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
