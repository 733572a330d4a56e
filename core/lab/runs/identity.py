"""What a run's figures come from (code, weights and what these learned), and where."""

import hashlib
import json
import os
import platform
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch

from outrider.base.errors import OutriderError
from outrider.base.folders import write_whole
from outrider.contract.target import Target
from outrider.data.prompts import Prompt
from outrider.drafters.parts.networks.weights import built_in
from outrider.lab.measuring.machine import load, memory_gib, processor
from outrider.lab.runs.labels import flatten
from outrider.plugins.fingerprint import CodeVersion, code_version, hash_files, hash_of, versions
from outrider.targets.passes.engine import engines

CERTIFICATE = "certificate.json"

LIBRARIES = ("torch", "transformers", "numpy")
"""The libraries that figures depend on."""

FILE = "prompts.sha256"
"""The file with the fingerprints of the prompts that weights beside it learned from."""


def identity(
    target: Target,
    drafters: Mapping[str, Mapping[str, Any]],
    scores: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns what decides a run's figures besides its settings, as plain values.

    Two runs with the same settings and the same identity measure the same thing.

    drafters: by variant, the configs of its `drafter`, `verifier` and `policy`.
    scores: the configs of scores by name. One without code or files of its own adds nothing.
    """
    own = {name: part for name, config in (scores or {}).items() if (part := part_identity(config))}
    module = type(target).__module__
    is_own = module.partition(".")[0] == "outrider"
    code = {} if is_own else {"code": code_version(module)}
    # Variants share drafters and rules, whose weights need to be read only once.
    part_once = cache(lambda config: part_identity(json.loads(config)))
    return {
        "outrider": code_version("outrider"),
        "libraries": versions(*LIBRARIES),
        "target": {"fingerprint": (target.fingerprint() or "")[:16], **code},
        **{
            name: {role: part_once(json.dumps(config)) for role, config in roles.items()}
            for name, roles in drafters.items()
        },
        **({"scores": own} if own else {}),
    }


def certify(folder: Path, target: Target, parts: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes what shows later that a run was exact, of one that has refused all that is not.

    parts: by variant, the configs of its parts, as plain values.
    """
    facts = {"lossless": True, "parts": parts, "identity": identity(target, parts)}
    facts |= {"logprobs": "the target's own, of the passes that have accepted the text"}
    write_whole(folder / CERTIFICATE, json.dumps(facts | {"sha256": hash_of(facts)}, indent=1))


def part_identity(config: Any) -> dict[str, Any]:
    """Returns the code and the files that a part's config names.

    code: by module, its version; Outrider's own modules are left out.
    files: by setting, the hash of the file or folder that it names.
    """
    code: dict[str, CodeVersion] = {}
    files: dict[str, str] = {}
    for key, value in flatten(config, lists=True):
        if key.rpartition(".")[2] == "_target_":
            module = str(value).rpartition(".")[0]
            if module.partition(".")[0] != "outrider":
                code[module] = code_version(module)
        elif isinstance(value, str) and value and (path := Path(value).expanduser()).exists():
            below = sorted(file for file in path.rglob("*") if file.is_file())
            files[key] = hash_files([path] if path.is_file() else below)
    return {name: part for name, part in (("code", code), ("files", files)) if part}


def provenance(command: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Returns where and how a process measures, as plain values.

    These are the command, the date in UTC, the commit if Outrider runs from a checkout, the
    interpreter, the operating system, the processor, the accelerator, the memory in GiB, the
    number of threads, the load, and what the engines found on this machine.
    """
    return {
        "command": shlex.join(["outrider", command, *arguments]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(Path(__file__).parent) if "source" in code_version("outrider") else None,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        **{name: fact for engine in engines().values() for name, fact in engine.facts().items()},
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "memory_gib": memory_gib(),
        "load": load(),
    }


def _commit(folder: Path) -> str | None:
    """Returns the commit that a folder is checked out at, marked if files differ, or None."""
    try:
        described = subprocess.run(
            ["git", "-C", folder, "describe", "--always", "--dirty", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()


def fingerprint(words: str) -> str:
    """Returns a fingerprint of a prompt, which ignores case and spacing."""
    return hashlib.sha256(" ".join(words.lower().split()).encode()).hexdigest()[:16]


def fingerprint_of(target: Target, ids: Sequence[int]) -> str:
    """Returns the fingerprint of all that is before an answer, without special tokens."""
    assert target.tokenizer is not None, "prompts of a target without a tokenizer"
    return fingerprint(str(target.tokenizer.decode(list(ids), skip_special_tokens=True)))


def trained_on(
    parts: Mapping[str, Mapping[str, Any]], target: Target, prompts: Sequence[Prompt]
) -> dict[str, list[str]]:
    """Returns by variant the ids of the prompts that a part of it was trained on, if there are any.

    parts: by variant, the configs of its `drafter`, `verifier` and `policy`.
    """
    files = {name: [*_files(config)] for name, config in parts.items()}
    known = {
        name: {line for it in own for line in it.read_text().split()} for name, own in files.items()
    }
    asked: list[tuple[str, str]] = []
    for prompt in prompts if target.tokenizer and any(known.values()) else ():
        with suppress(OutriderError):  # a prompt that can't be encoded is refused when it is asked
            turns = [target.encode_turns(prompt.turns[:1], chat=chat) for chat in (True, False)]
            asked += [(prompt.id, fingerprint_of(target, ids)) for ids in turns]
    shared = {name: [key for key, own in asked if own in known[name]] for name in parts}
    return {name: [*dict.fromkeys(ids)] for name, ids in shared.items() if ids}


def _files(config: Any) -> Iterator[Path]:
    """Yields the files of fingerprints beside the weights that a config names, however deep.

    A trained family without a path has the package's weights, and "smollm2" stands for its table.
    """
    values = {str(value): key for key, value in flatten(config, lists=True) if value}
    paths = [path for value in values if (path := Path(value).expanduser()).exists()]
    folders = [path if path.is_dir() else path.parent for path in paths]
    for value, key in values.items() if not paths else ():
        families = value.split(".")[2:3] if key.endswith("_target_") else []
        own = built_in("".join(families) or ("bigram" if value == "smollm2" else "none"))
        folders += [own, own.parent] if own.is_dir() else []
    yield from (folder / FILE for folder in folders if (folder / FILE).is_file())
