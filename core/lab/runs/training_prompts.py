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

PACKAGED = "smollm2"
"""The setting that stands for weights of the package, as leaving a path out does."""


def fingerprint(words: str) -> str:
    """Returns a fingerprint of a prompt, which ignores case and spacing."""
    return hashlib.sha256(" ".join(words.lower().split()).encode()).hexdigest()[:16]


def prompt_of(target: Target, ids: Sequence[int]) -> str:
    """Returns what a fingerprint is made of: all before the answer, without special tokens."""
    assert target.tokenizer is not None, "prompts of a target without a tokenizer"
    return str(target.tokenizer.decode(list(ids), skip_special_tokens=True))


def trained_on(
    parts: Mapping[str, Mapping[str, Any]], target: Target, prompts: Sequence[Prompt]
) -> dict[str, list[str]]:
    """Returns by variant the ids of the prompts that a part of it was trained on, if there are any.

    parts: by variant, the configs of its `drafter`, `verifier` and `policy`.
    """
    known = {name: _learned(config) for name, config in parts.items()}
    if target.tokenizer is None or not any(known.values()):
        return {}
    asked = {prompt.id: set(_fingerprints(target, prompt)) for prompt in prompts}
    shared = {
        name: [key for key, own in asked.items() if own & learned]
        for name, learned in known.items()
    }
    return {name: ids for name, ids in shared.items() if ids}


def _fingerprints(target: Target, prompt: Prompt) -> Iterator[str]:
    """Yields those of a prompt's first turn, in the chat template and without."""
    with suppress(OutriderError):  # a prompt that can't be encoded is refused when it is asked
        for chat in (True, False):
            yield fingerprint(prompt_of(target, target.encode_turns(prompt.turns[:1], chat=chat)))


def _learned(config: Any) -> set[str]:
    """Returns the fingerprints beside the weights that a config names, however deep."""
    return {line for file in _files(config) if file.is_file() for line in file.read_text().split()}


def _files(config: Any) -> Iterator[Path]:
    values = [(key, value) for key, value in leaves(config) if isinstance(value, str) and value]
    named = [Path(value).expanduser() for _, value in values if Path(value).expanduser().exists()]
    for path in named:
        yield (path if path.is_dir() else path.parent) / FILE
    for key, value in values:
        family = value.split(".")[2:3] if key.endswith("_target_") else []
        own = "bigram" if value == PACKAGED else "".join(family)
        if own and not named:
            yield built_in(own) / FILE
            if built_in(own).is_dir():
                yield built_in(own).parent / FILE
