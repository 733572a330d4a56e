"""Which prompts of a run the weights of its drafters were trained on."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from outrider.base.errors import OutriderError
from outrider.contract.target import Target
from outrider.data.prompts import Prompt
from outrider.drafters.parts.networks.weights import built_in
from outrider.lab.runs.identity import leaves

FILE = "prompts.sha256"
"""The file with the fingerprints of the prompts that weights beside it learned from."""


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
    values = {str(value): key for key, value in leaves(config) if value}
    paths = [path for value in values if (path := Path(value).expanduser()).exists()]
    folders = [path if path.is_dir() else path.parent for path in paths]
    for value, key in values.items() if not paths else ():
        families = value.split(".")[2:3] if key.endswith("_target_") else []
        own = built_in("".join(families) or ("bigram" if value == "smollm2" else "none"))
        folders += [own, own.parent] if own.is_dir() else []
    yield from (folder / FILE for folder in folders if (folder / FILE).is_file())
