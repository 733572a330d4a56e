"""Texts: what the target writes by itself, in batches, and kept on disk by content."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import platformdirs

from outrider.contract.chance import SampledChance
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target


def cache_folder() -> Path:
    """Returns where texts are kept: `outrider/texts` in the user's cache directory."""
    return Path(platformdirs.user_cache_path("outrider")) / "texts"


def written(
    target: Target,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    max_new_tokens: int,
    *,
    batch: int,
    folder: Path | None,
    on_text: Callable[[], None] = lambda: None,
) -> list[list[int]]:
    """Returns the target's continuation of each prompt.

    What is known is read from `folder`; what is new is written there as its batch is done, so
    that a run that breaks off loses one batch. The key is the content: the target's
    fingerprint, the prompt's ids, the sampling, the length.

    batch: how many texts to write at once. Those of like length go together.
    folder: where to keep them; none, or a target without a fingerprint, keeps nothing.
    on_text: called for each text as it is there.
    """
    fingerprint = target.fingerprint() if folder is not None else None
    places = [_place(folder, fingerprint, prompt, sampling, max_new_tokens) for prompt in prompts]
    texts: list[list[int]] = [_read(place) for place in places]
    for text in texts:
        if text:
            on_text()
    order = sorted(range(len(prompts)), key=lambda index: -len(prompts[index]))
    for first in range(0, len(order), batch):
        # The batches do not depend on what is known, so nor do the texts.
        new = [index for index in order[first : first + batch] if not texts[index]]
        if not new:
            continue
        chances = [SampledChance.seeded(seed(sampling, prompts[index])) for index in new]
        batch_prompts = [prompts[index] for index in new]
        fresh = target.write(batch_prompts, sampling, chances, max_new_tokens)
        for index, text in zip(new, fresh, strict=True):
            texts[index] = text
            _write(places[index], text)
            on_text()
    return texts


def seed(sampling: Sampling, prompt: Sequence[int]) -> int:
    """Returns a seed of the prompt's own, so that prompts are independent of each other."""
    return int(_digest([sampling.seed, list(prompt)])[:15], 16)


def seeded(sampling: Sampling, prompt: Sequence[int]) -> Sampling:
    """Returns the sampling with the prompt's own seed."""
    return replace(sampling, seed=seed(sampling, prompt))


def _place(
    folder: Path | None,
    fingerprint: str | None,
    prompt: Sequence[int],
    sampling: Sampling,
    max_new_tokens: int,
) -> Path | None:
    if folder is None or fingerprint is None:
        return None
    probs = asdict(replace(sampling, seed=0) if sampling.greedy else sampling)  # greedy has no luck
    key = _digest([fingerprint, list(prompt), probs, max_new_tokens])
    return folder / key[:2] / f"{key[2:]}.json"


def _read(place: Path | None) -> list[int]:
    if place is None or not place.is_file():
        return []
    try:
        tokens: list[int] = json.loads(place.read_text())
    except json.JSONDecodeError:
        return []  # damaged: it is written again
    return tokens


def _write(place: Path | None, text: list[int]) -> None:
    if place is None:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    scratch = place.with_suffix(f".{os.getpid()}")
    scratch.write_text(json.dumps(text))
    scratch.replace(place)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
