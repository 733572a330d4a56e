"""Texts: what the target writes by itself, in batches, cached on disk by content."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import platformdirs

from outrider.base.calling import calling
from outrider.base.contents import json_in
from outrider.base.folders import write_if_possible
from outrider.contract.chance import SampledChance
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.decoding.batches.batch_target import batched
from outrider.plugins.fingerprint import code_version, hash_of, versions
from outrider.targets.passes.engine import engine_of
from outrider.targets.passes.placement import home

FORMAT = 2
"""The version of the cache; texts under another are not read."""


def cache_folder() -> Path:
    """Returns the folder of cached texts: `outrider/texts` in the user's cache directory."""
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

    Texts in `folder` are read; new ones are saved there after each batch, so that a run that breaks
    off loses at most one batch. A text's key is made of all that decides it: see `key`.

    batch: how many texts to write at once; prompts of similar length go together.
    folder: the cache. Nothing is cached if it is None, or if the target has no fingerprint.
    on_text: called once for each text, as soon as it is there.
    """
    paths: list[Path | None] = [None] * len(prompts)
    if folder is not None and target.fingerprint() is not None:
        keys = [key(target, prompt, sampling, max_new_tokens) for prompt in prompts]
        paths = [folder / name[:2] / f"{name[2:]}.json" for name in keys]
    texts: list[list[int]] = [_read(path) for path in paths]
    for text in texts:
        if text:
            on_text()
    for indices in batches(prompts, batch):
        # Batches are formed before cached texts are left out, so that texts do not depend on the
        # cache.
        missing = [index for index in indices if not texts[index]]
        if not missing:
            continue
        chances = [SampledChance.seeded(seed(sampling, prompts[index])) for index in missing]
        batch_prompts = [prompts[index] for index in missing]
        with calling("target", target), target.computing():
            new_texts = batched(target).write(batch_prompts, sampling, chances, max_new_tokens)
        for index, text in zip(missing, new_texts, strict=True):
            texts[index] = text
            if (path := paths[index]) is not None:
                write_if_possible(path, json.dumps(text))
            on_text()
    return texts


def batches(prompts: Sequence[Sequence[int]], batch: int) -> list[list[int]]:
    """Returns the numbers of the prompts that are written together, those of similar length."""
    order = sorted(range(len(prompts)), key=lambda index: -len(prompts[index]))
    return [order[first : first + batch] for first in range(0, len(order), batch)]


def seed(sampling: Sampling, prompt: Sequence[int]) -> int:
    """Returns the prompt's own seed, so that prompts are sampled independently of each other."""
    return int(hash_of([sampling.seed or 0, list(prompt)])[:15], 16)


def seeded(sampling: Sampling, prompt: Sequence[int]) -> Sampling:
    return replace(sampling, seed=seed(sampling, prompt))


def key(target: Target, prompt: Sequence[int], sampling: Sampling, max_new_tokens: int) -> str:
    """Returns the name of a text in the cache: a hash of all that decides its tokens.

    These are the prompt, the sampling, the length, the target's weights, how it computes and where
    its texts end, and the versions of the libraries and of the cache itself.
    """
    # Greedy texts are the same for every seed.
    settings = asdict(replace(sampling, seed=0) if sampling.greedy else sampling)
    ends = [sorted(target.eos), target.max_length]
    request = [list(prompt), settings, max_new_tokens]
    return hash_of([FORMAT, _versions(), target.fingerprint(), _passes(target), ends, request])


@cache
def _versions() -> dict[str, str]:
    # An editable Outrider changes under its version.
    return versions("outrider", "torch", "transformers") | {
        "source": code_version("outrider").get("source", "")
    }


def _passes(target: Target) -> list[str]:
    """Returns what makes a target's logits differ in their last digits."""
    model = target.model
    if model is None:
        return []
    attention = str(getattr(model.config, "_attn_implementation", None))
    return [str(model.dtype), home(model).type, attention, engine_of(model).layout(model)]


def _read(path: Path | None) -> list[int]:
    """Returns the cached text, or an empty list."""
    try:
        tokens = [] if path is None else json_in(path)
    except (OSError, ValueError):  # there is none yet, or it is damaged and is written again
        return []
    is_text = isinstance(tokens, list) and all(type(token) is int for token in tokens)
    return tokens if is_text else []
