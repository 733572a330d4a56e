"""States: the target's hidden states along its texts, computed once and kept in files."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from rich.console import Console
from rich.progress import track
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from outrider.contract.target import Target
from outrider.runtime.cache import GrowingCache
from outrider.runtime.cached_model import state_number
from outrider.runtime.passes import PassInput
from outrider.runtime.step import run_pass
from outrider.training.corpus import Text

SHARD = 32
"""Texts in a file."""

SORTED = 16
"""Batches whose texts are sorted by length among each other."""


@final
@dataclass(frozen=True, slots=True)
class Batch:
    """Texts side by side, padded behind.

    best: the target's likeliest token after each. own: which tokens the target wrote.
    states: the target's, by name.
    """

    ids: Int[Tensor, "batch tokens"]
    best: Int[Tensor, "batch tokens"]
    own: Bool[Tensor, "batch tokens"]
    states: dict[str, Float[Tensor, "batch tokens width"]]

    def to(self, device: torch.device, dtype: torch.dtype) -> "Batch":
        """Returns the batch on a device, its states in a precision."""
        states = {name: rows.to(device, dtype) for name, rows in self.states.items()}
        return Batch(self.ids.to(device), self.best.to(device), self.own.to(device), states)


@final
@dataclass(frozen=True, slots=True)
class Examples:
    """Texts with their states on disk. names: of the states."""

    texts: Sequence[Text]
    names: tuple[str, ...]
    folder: Path

    def batches(self, size: int, seed: int) -> Iterator[Batch]:
        """Yields all texts once, in an order that the seed decides.

        Texts of like length go together, so that little of a batch is padding.
        """
        shards: dict[int, dict[str, Tensor]] = {}
        for numbers in self._groups(size, torch.Generator().manual_seed(seed)):
            rows = []
            for number in numbers:
                place = number // SHARD
                if place not in shards:  # files are mapped, not read
                    shards[place] = load_file(_file(self.folder, place))
                rows.append((self.texts[number], shards[place], number))
            yield _padded(rows, self.names)

    def _groups(self, size: int, generator: torch.Generator) -> list[list[int]]:
        order = torch.randperm(len(self.texts), generator=generator).tolist()
        groups = []
        for first in range(0, len(order), size * SORTED):
            some = sorted(
                order[first : first + size * SORTED], key=lambda each: len(self.texts[each].ids)
            )
            groups += [some[start : start + size] for start in range(0, len(some), size)]
        return [groups[each] for each in torch.randperm(len(groups), generator=generator)]


@torch.no_grad()
def chosen(counted: Bool[Tensor, "*places"], share: float, training: bool) -> Tensor:
    """Returns the counted places of which a step learns: in training a share of them, drawn anew."""
    if share >= 1 or not training:
        return counted
    return counted & (torch.rand(counted.shape, device=counted.device) < share)


def computed(
    target: Target, texts: Sequence[Text], names: Sequence[str], folder: Path, console: Console
) -> Examples:
    """Returns the texts with their states, which are computed where the folder lacks them.

    What the folder has of other texts is written anew.
    """
    folder.mkdir(parents=True, exist_ok=True)
    digests = [_digest(texts[first : first + SHARD]) for first in range(0, len(texts), SHARD)]
    wanted = [
        shard
        for shard, digest in enumerate(digests)
        if not _holds(_file(folder, shard), digest, f"{shard * SHARD}.", names)
    ]
    work = track(wanted, "The target reads", console=console, disable=not wanted)
    for shard in work:
        tensors: dict[str, Tensor] = {}
        for number in range(shard * SHARD, min((shard + 1) * SHARD, len(texts))):
            ids = torch.tensor([texts[number].ids], device=target.model.device)
            places = {name: state_number(name) for name in names}
            inputs = PassInput(ids, ids.shape[1], states=set(places.values()))
            found = run_pass(target.model, GrowingCache(), inputs)
            tensors[f"{number}.best"] = found.logits[0].argmax(-1).int().cpu()
            for name, place in places.items():
                tensors[f"{number}.{name}"] = found.states[place][0].half().cpu().contiguous()
        scratch = folder / "unfinished"
        save_file(tensors, scratch, metadata={"texts": digests[shard]})
        scratch.replace(_file(folder, shard))
    return Examples(texts, tuple(names), folder)


def _digest(texts: Sequence[Text]) -> str:
    return hashlib.sha256(json.dumps([text.ids for text in texts]).encode()).hexdigest()


def _holds(place: Path, digest: str, start: str, names: Sequence[str]) -> bool:
    """Returns whether a file has these texts, and these states of the first of them."""
    if not place.is_file():
        return False
    with safe_open(place, "pt") as file:
        same = (file.metadata() or {}).get("texts") == digest
        return same and {start + name for name in names} <= set(file.keys())


def _file(folder: Path, shard: int) -> Path:
    return folder / f"states-{shard:05}.safetensors"


def _padded(rows: Sequence[tuple[Text, dict[str, Tensor], int]], names: Sequence[str]) -> Batch:
    longest = max(len(text.ids) for text, *_ in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    best = torch.zeros_like(ids)
    own = torch.zeros(len(rows), longest, dtype=torch.bool)
    for row, (text, shard, number) in enumerate(rows):
        ids[row, : len(text.ids)] = torch.tensor(text.ids)
        best[row, : len(text.ids)] = shard[f"{number}.best"]
        own[row, text.start : len(text.ids)] = True
    states = {}
    for name in names:
        kept = [shard[f"{number}.{name}"] for _, shard, number in rows]
        states[name] = torch.nn.utils.rnn.pad_sequence(kept, batch_first=True)
    return Batch(ids, best, own, states)
