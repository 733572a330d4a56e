"""What decides the result of a training run, kept in its folder for the next start."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from outrider.base.contents import json_in
from outrider.base.errors import ConfigError, refusing
from outrider.base.folders import write_whole
from outrider.contract.target import Target
from outrider.data.prompts import Prompt
from outrider.lab.runs.labels import differences
from outrider.plugins.fingerprint import hash_of, versions

FILE = "training.json"
LIBRARIES = ("outrider", "torch", "transformers")


def identity(
    settings: Mapping[str, Any], target: Target, prompts: Sequence[Prompt]
) -> dict[str, Any]:
    """Returns all that decides a run: plain settings, weights, prompts, and libraries."""
    facts = {
        **settings,
        "target's weights": target.fingerprint(),
        "data's prompts": hash_of([asdict(prompt) for prompt in prompts]),
        "versions": versions(*LIBRARIES),
    }
    plain: dict[str, Any] = json.loads(json.dumps(facts))  # tuples become lists, as in the file
    return plain


def begin(folder: Path, facts: Mapping[str, Any]) -> None:
    """Writes the facts of a run; raises `ConfigError` if the folder holds those of another."""
    path = folder / FILE
    if path.is_file():
        check_same(path, read_facts(path, "facts", "finished")["facts"], facts)
    write_whole(path, json.dumps({"finished": False, "facts": facts}, indent=1))


def finish(folder: Path) -> None:
    """Marks the run in a folder as finished."""
    path = folder / FILE
    saved = read_facts(path, "facts", "finished")
    write_whole(path, json.dumps(saved | {"finished": True}, indent=1))


def has_progress(folder: Path) -> bool:
    """Returns whether a folder holds a run that has got further than its facts and its log."""
    names = {path.name for path in folder.glob("[!.]*") if path.suffix != ".log"}
    return FILE in names and len(names) > 1


def unfinished(folder: Path, facts: Mapping[str, Any]) -> Path | None:
    """Returns the newest unfinished run with these facts directly below `folder`, or None."""
    paths = [path for path in folder.glob(f"*/{FILE}") if path.is_file()]
    for path in sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            saved = read_facts(path, "facts", "finished")
        except (ConfigError, OSError):
            continue
        if not saved["finished"] and saved["facts"] == facts and has_progress(path.parent):
            return path.parent
    return None


def keep_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """Writes facts into a file, or compares them with those there; errors are those of `begin`."""
    if path.is_file():
        check_same(path, read_facts(path), facts)
    write_whole(path, json.dumps(facts, indent=1))


def check_same(path: Path, saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises `ConfigError` if facts have changed from those saved in a file; names the first."""
    for name, (old, new) in differences([saved, now]).items():
        raise ConfigError(
            f"{name}={new!r}: expected {old!r}, as in {path}; another folder starts a new run"
        )


def read_facts(path: Path, *names: str) -> dict[str, Any]:
    """Returns the facts in a file; raises `ConfigError` if it is damaged, or lacks one of these."""
    line = f"{path}: damaged, expected the facts of a training run"
    with refusing(line, ValueError, TypeError, KeyError):
        saved = dict(json_in(path))
        return saved | {name: saved[name] for name in names}
