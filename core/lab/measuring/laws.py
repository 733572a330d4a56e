"""Laws: p and each drafter's q along a text, kept on the likeliest tokens, and the rest as sums.

A file has, for each position of a text, the ids that are kept: the likeliest of p, those of each q
there, and the text's own token. With their logits it has sums over the tokens that are left: of
each law, of min(p, q), and p's entropy. So alpha is exact. Readings of the rest agree with all of
it, at the ends of where it may lie: how far figures differ is the error of the sketch.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Self, final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save
from torch import Tensor

from outrider.base.folders import write_whole
from outrider.contract.draft import Draft
from outrider.contract.sampling import Sampling
from outrider.lab.measuring.reference import Reference

Floats = NDArray[np.float64]

READINGS = ("level", "steep", "apart")
"""How the rest lies: p level, and q where p is not; p as steep, and q where p is, as may be; and p
steep, and q where p is not."""

DRAWN, NOTHING = -1, -2
"""What stands for a token that was drawn, and for none, where tokens that were written have ids."""


@final
@dataclass(frozen=True)
class Recorder:
    """Keeps the laws along one text.

    question: the prompt's id, the turn and the category.
    drafters: by name, whether the drafter is autoregressive. sampling: the run's.
    keep: how many of the likeliest tokens of each law; None for all.
    """

    text: Reference
    question: tuple[str, int, str]
    drafters: Mapping[str, bool]
    sampling: Sampling
    keep: int | None
    columns: dict[tuple[str, int], tuple[Tensor, Any]] = field(default_factory=dict)

    def note(self, name: str, row: int, draft: Draft) -> None:
        """Takes a draft that begins at a row of the text and follows it."""
        for depth, token in enumerate(draft.tokens):
            law = draft.logits[depth] if draft.logits else None
            if (name, depth) not in self.columns:
                laws = _in_a_file(self.text.logits)
                self.columns[name, depth] = laws, np.full(len(laws), NOTHING, np.int32)
            laws, written = self.columns[name, depth]
            written[row + depth] = token if law is None else DRAWN
            if law is not None:
                laws[row + depth] = law.cpu()

    def save(self, path: Path) -> None:
        """Writes the file."""
        names = [*self.drafters]
        keys = sorted(self.columns, key=lambda key: (names.index(key[0]), key[1]))
        count, width = self.text.logits.shape
        written = np.array([self.columns[key][1] for key in keys], np.int32).reshape(-1, count)
        laws, size = 1 + len(keys), width if self.keep is None else self.keep
        most = count * min(width, size * laws + 1)
        # Made before all rows: a small array after each would keep freed memory from being reused.
        arrays = dict[str, Any](ids=np.empty(most, np.int32))
        arrays["logits"] = np.empty((laws, most), np.float32)
        arrays |= {name: np.empty((laws, count)) for name in ("rests", "shared")}
        arrays["entropies"], ends = np.empty(count), [0]
        for row in range(count):
            found = self._position(row, keys)
            ends.append(ends[-1] + len(found[0]))
            for name, part in zip(arrays, found, strict=True):
                first = ends[-2] if name in ("ids", "logits") else row
                arrays[name][..., first : first + part.shape[-1]] = part
        for name in ("ids", "logits"):
            arrays[name] = np.ascontiguousarray(arrays[name][..., : ends[-1]])
        arrays["ends"] = np.array(ends, np.int64)
        facts = {
            "question": self.question,
            "tokens": self.text.ids,
            "start": self.text.start,
            "ended": self.text.ended,
            "vocab_size": self.text.logits.shape[-1],
            "scale": self.sampling.temperature or 1.0,
            "keep": self.keep,
            "autoregressive": dict(self.drafters),
            "columns": keys,
        }
        metadata = {"laws": json.dumps(facts)}
        write_whole(path, save({**arrays, "written": written}, metadata))

    def _position(self, row: int, keys: list[tuple[str, int]]) -> tuple[Any, ...]:
        """Returns the ids, the logits [laws, ids] and the sums of a position."""
        p = self.text.logits[row].float().cpu()
        logits = p.new_full((1 + len(keys), len(p)), -torch.inf)
        logits[0] = p
        for number, (laws, written) in enumerate(map(self.columns.__getitem__, keys), start=1):
            if written[row] == DRAWN:
                logits[number] = laws[row]
        size = len(p) if self.keep is None else min(self.keep, len(p))
        likeliest = logits[logits.amax(-1) > -torch.inf].topk(size).indices.flatten()
        own = torch.tensor([self.text.ids[self.text.start + row]])
        ids = torch.from_numpy(np.unique(torch.cat([likeliest, own]).numpy()))
        scaled = logits.double() / (self.sampling.temperature or 1.0)
        whole = scaled.logsumexp(-1, keepdim=True)
        left = (scaled - whole).exp().nan_to_num().index_fill(-1, ids, 0.0)
        rests = (left.sum(-1, keepdim=True).log() + whole).nan_to_num(-torch.inf, neginf=-torch.inf)
        shared = left[0].minimum(left).sum(-1, keepdim=True)
        sums = rests, shared, torch.special.entr(left[0]).sum()[None]
        return ids.int().numpy(), logits[:, ids].numpy(), *(each.numpy() for each in sums)


def _in_a_file(like: Tensor) -> Tensor:
    """Returns a tensor of this shape that the disk holds and not memory, until it is let go."""
    with NamedTemporaryFile() as file:  # the mapping outlives the name
        return torch.from_file(file.name, True, like.numel()).view(like.shape)


@final
@dataclass(frozen=True)
class Laws:
    """The laws along a text, as a file has them.

    question: see `Recorder`. tokens, start, ended: see `Reference`.
    scale: what logits are divided by, the temperature.
    autoregressive: of each drafter. columns: the drafter and the depth of each q that is kept.
    """

    question: tuple[str, int, str]
    tokens: list[int]
    start: int
    ended: bool
    vocab_size: int
    scale: float
    keep: int | None
    autoregressive: Mapping[str, bool]
    columns: list[list[Any]]
    arrays: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Returns the content of a file."""
        with safe_open(path, "numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return cls(**json.loads(file.metadata()["laws"]), arrays=arrays)

    def p(self, row: int, reading: str) -> Float[Tensor, "vocab"]:
        """Returns the target's logits at a row of the text."""
        return self._law(0, row, lambda count: self._rest_of_p(row, reading, count))

    def q(
        self, name: str, row: int, depth: int, reading: str
    ) -> Float[Tensor, "vocab"] | int | None:
        """Returns a drafter's logits for a token of its draft from a row on.

        An id stands for a token that was written, None for none.
        """
        if self.autoregressive[name]:
            row, depth = row + depth, 0
        position = row + depth
        if [name, depth] not in self.columns or position >= len(self.tokens) - self.start:
            return None
        law = 1 + self.columns.index([name, depth])
        written = int(self.arrays["written"][law - 1, position])
        if written != DRAWN:
            return None if written == NOTHING else written
        return self._law(law, position, lambda n: self._rest_of_q(law, position, reading, n))

    def _rest_of_p(self, row: int, reading: str, count: int) -> Floats:
        """Returns the probabilities of so many tokens that are not kept."""
        probs, rest = np.zeros(count), self._rest(0, row)
        if not count or not rest:
            return probs
        entropy, places = float(self.arrays["entropies"][row]), max(1, count - 1)
        if reading == "level":
            size = min(max(1, round(rest * np.exp(entropy / rest))), places)
            probs[:size] = rest / size
            return probs
        kept = np.sort(self._kept(row)[0])[::-1]
        highest = np.exp(kept[: self.keep][-1] / self.scale - self._whole(0, row))
        steep = np.arange(min(places, int(rest / highest) + 1))
        left = rest - steep * highest
        level = left / (places - steep)
        sums = -steep * highest * np.log(highest) - left * np.log(np.maximum(level, 1e-300))
        size = int(np.flatnonzero(sums >= entropy)[-1:].sum())
        probs[:size], probs[size:places] = highest, level[size]
        return probs

    def _rest_of_q(self, law: int, row: int, reading: str, count: int) -> Floats:
        p, shared = self._rest_of_p(row, reading, count), float(self.arrays["shared"][law, row])
        if reading != "steep":
            common, free = p * (shared / (p.sum() or 1)), p == 0
        else:  # from the end, if p's first token has more than both share
            order = slice(None, None, -1 if count and p[0] > shared else 1)
            along = p[order]
            common = np.minimum(along, np.maximum(0, shared - (along.cumsum() - along)))
            common, free = common[order], ((common == along) & (along > 0))[order]
        if not free.any():
            free[-1:] = True
        probs: Floats = common + free * max(0.0, self._rest(law, row) - shared) / max(1, free.sum())
        return probs

    def _rest(self, law: int, row: int) -> float:
        """Returns the probability of the tokens that are not kept."""
        return float(np.exp(self.arrays["rests"][law, row] - self._whole(law, row)))

    def _whole(self, law: int, row: int) -> Any:
        """Returns the logarithm of what the exponentials of a law's scaled logits sum up to."""
        kept = np.logaddexp.reduce(self._kept(row)[law].astype(float) / self.scale)
        return np.logaddexp(kept, self.arrays["rests"][law, row])

    def _kept(self, row: int, name: str = "logits") -> Any:
        first, last = self.arrays["ends"][row : row + 2]
        return self.arrays[name][..., first:last]

    def _law(self, law: int, row: int, rest: Callable[[int], Floats]) -> Float[Tensor, "vocab"]:
        """Returns logits whose kept ones are those of a law. rest: the probabilities of others."""
        kept, ids = self._kept(row), self._kept(row, "ids")
        logits, left = np.zeros(self.vocab_size, kept.dtype), np.ones(self.vocab_size, bool)
        logits[ids], left[ids] = kept[law], False
        with np.errstate(divide="ignore"):
            outside = np.log(rest(self.vocab_size - len(ids)))
        logits[left] = self.scale * (outside + self._whole(law, row))
        return torch.from_numpy(logits)
