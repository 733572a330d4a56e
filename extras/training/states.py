"""States: the target's hidden states along its texts, computed once and kept in files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from outrider.base.folders import claimed, replacing
from outrider.base.terminal import remark
from outrider.base.waiting import tracked
from outrider.contract.target import Target
from outrider.extras.training.generated_texts import Text
from outrider.plugins.fingerprint import hash_of
from outrider.targets.passes.cached_model import state_number
from outrider.targets.passes.engine import run_pass
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import PassInput
from outrider.targets.passes.placement import home

BEST = "best"
"""The name of the target's likeliest tokens among the states of a text."""

SORTED = 16
"""The number of batches whose texts are sorted by length together."""


@final
@dataclass(frozen=True, slots=True)
class Batch:
    """Texts side by side, padded at the end.

    best: the target's likeliest token after each token.
    own: which tokens the target wrote.
    states: the target's hidden states, by name.
    """

    ids: Int[Tensor, "batch tokens"]
    best: Int[Tensor, "batch tokens"]
    own: Bool[Tensor, "batch tokens"]
    states: dict[str, Float[Tensor, "batch tokens width"]]

    def to(self, device: torch.device, dtype: torch.dtype) -> "Batch":
        """Returns the batch on a device. dtype: the precision of its states."""
        states = {name: rows.to(device, dtype) for name, rows in self.states.items()}
        return Batch(self.ids.to(device), self.best.to(device), self.own.to(device), states)


@final
@dataclass(frozen=True, slots=True)
class Examples:
    """Texts and their states.

    names: of the states.
    read: returns the states of a text, given its number, by name; and as "best" the target's
        likeliest token after each of its tokens.
    """

    texts: Sequence[Text]
    names: tuple[str, ...]
    read: Callable[[int], Mapping[str, Tensor]]

    def batches(self, size: int, seed: int) -> Iterator[Batch]:
        """Yields every text once, in batches and an order that depend on the seed.

        Texts of similar length go together, so that little of a batch is padding.
        """
        generator, groups = torch.Generator().manual_seed(seed), list[list[int]]()
        order = torch.randperm(len(self.texts), generator=generator).tolist()
        for first in range(0, len(order), size * SORTED):
            by_length = sorted(
                order[first : first + size * SORTED], key=lambda text: len(self.texts[text].ids)
            )
            groups += [by_length[start : start + size] for start in range(0, len(by_length), size)]
        pad = partial(pad_sequence, batch_first=True)
        for group in torch.randperm(len(groups), generator=generator):
            texts = [self.texts[number] for number in groups[group]]
            rows = [self.read(number) for number in groups[group]]
            yield Batch(
                pad([torch.tensor(text.ids) for text in texts]),
                pad([tensors[BEST].long() for tensors in rows]),
                pad([torch.tensor(text.own) for text in texts]),
                {name: pad([tensors[name] for tensors in rows]) for name in self.names},
            )


@torch.no_grad()
def sample_positions(
    counted: Bool[Tensor, "*positions"], share: float, training: bool
) -> Bool[Tensor, "*positions"]:
    """Returns a random `share` of the positions counted in training, and all in evaluation."""
    if share >= 1 or not training:
        return counted
    return counted & (torch.rand(counted.shape, device=counted.device) < share)


def compute_states(
    target: Target, texts: Sequence[Text], names: Sequence[str], folder: Path
) -> Examples:
    """Returns texts with the target's states along them.

    Files in the folder are used if they hold these states of these texts, by a target with the same
    weights, and written if not. If another process writes to the folder, this one waits.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with claimed(folder, wait=partial(remark, stderr=False)):
        weights = target.fingerprint() or ""
        digests = [hash_of([weights, text.ids]) for text in texts]
        paths = [folder / f"states-{number:05}.safetensors" for number in range(len(texts))]
        rows = zip(texts, paths, digests, strict=True)
        missing = [row for row in rows if not _holds(*row[1:], names)]
        for text, path, digest in tracked(missing, "The target reads", len(missing)):
            states = states_of(target, text.ids, names)
            halves = {name: it.half() if name != BEST else it for name, it in states.items()}
            with replacing(path) as scratch:
                save_file(halves, scratch, metadata={"text": digest})
    return Examples(texts, tuple(names), lambda number: load_file(paths[number]))


def states_of(target: Target, ids: list[int], names: Sequence[str]) -> dict[str, Tensor]:
    """Returns a target's states along a text, by name, and as "best" its likeliest tokens."""
    layers = {name: state_number(name) for name in names}
    row = torch.tensor([ids], device=home(target.model))
    inputs = PassInput(row, row.shape[1], states=set(layers.values()))
    output = run_pass(target.model, GrowingCache(), inputs)
    states = {name: output.states[index][0].cpu().contiguous() for name, index in layers.items()}
    return {BEST: output.logits[0].argmax(-1).int().cpu(), **states}


def _holds(path: Path, digest: str, names: Sequence[str]) -> bool:
    """Returns whether a file holds these states of this text."""
    if not path.is_file():
        return False
    try:
        with safe_open(path, "pt") as file:
            is_same = (file.metadata() or {}).get("text") == digest
            return is_same and set(names) <= set(file.keys())
    except SafetensorError:
        return False  # the file is damaged; it is written again
