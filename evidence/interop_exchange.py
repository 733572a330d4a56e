"""Training data and checkpoints that go to other libraries and come from them.

evidence/interop.py prints it below its table of layouts.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from safetensors.torch import load_file

from outrider.drafters.parts.networks.vocabulary import frequent
from outrider.extras.training.rows import read_rows
from outrider.extras.training.speculators_data import (
    FREQUENCIES,
    read_frequencies,
    write_data,
)
from outrider.extras.training.state_files import find_state_files, read_state_files
from outrider.extras.training.states import states_of
from outrider.targets.passes.cached_model import HIDDEN

LAYERS, KNOWN, CLOSE = (2, 4, 5), 128, 1e-5
NAMES = (HIDDEN, *(f"{HIDDEN}.{layer}" for layer in LAYERS))
DATA = Path(__file__).with_name("interop_data.py")


class Line(NamedTuple):
    """What was exchanged, what came of it, and whether that is as it should be."""

    what: str
    found: str
    is_right: bool


def exchanged(root: Path, target: Any, python: str) -> Iterator[Line]:
    """Yields the lines of the table. python: of an environment that has the library."""
    yield from data(root, target, python)


@torch.no_grad()
def data(root: Path, target: Any, python: str) -> Iterator[Line]:
    """Yields what becomes of training data: theirs here, and ours there."""
    _run(python, "write", root)
    texts = read_rows(str(root / "rows.jsonl"), target, 99)
    for name, close in {"their-data": CLOSE, "their-data-fp8": 0.1}.items():
        own = read_rows(str(root / name), target, 99)
        files = find_state_files([str(root / name)])
        assert files is not None
        examples = read_state_files(target, own, NAMES, files, 0)
        pairs = [
            (examples.read(number), states_of(target, text.ids, NAMES))
            for number, text in enumerate(own)
        ]
        gap = max(_gap(read[state], right[state]) for read, right in pairs for state in NAMES)
        is_right = own == texts and gap <= close
        yield Line(f"{name}: rows and states, read here", f"states within {gap:.1e}", is_right)
    counts = read_frequencies(root / "their-data" / FREQUENCIES, target.vocab_size)
    total = sum(len(run) for text in texts for run in text.written)
    yield Line(
        "their token_freq.pt, read here", f"{counts.sum()} tokens", int(counts.sum()) == total
    )
    write_data(root / "our-data", target, texts, LAYERS, Console(quiet=True))
    _run(python, "read", root)
    yield from _read_there(load_file(root / "read.safetensors"), root, target)


def _read_there(read: dict[str, torch.Tensor], root: Path, target: Any) -> Iterator[Line]:
    texts = read_rows(str(root / "rows.jsonl"), target, 99)
    gap, same = 0.0, True
    for number, text in enumerate(texts):
        right = states_of(target, text.ids, NAMES)
        states = torch.cat([right[name] for name in NAMES[1:]], dim=-1)
        last = target.model.get_decoder().norm(read[f"{number}.verifier_last_hidden_states"])
        gap = max(gap, _gap(read[f"{number}.hidden_states"], states), _gap(last, right[HIDDEN]))
        same = same and read[f"{number}.input_ids"].tolist() == text.ids
        same = same and read[f"{number}.loss_mask"].tolist() == [int(own) for own in text.own]
    same = same and gap <= CLOSE
    yield Line("our-data: rows and states, read there", f"states within {gap:.1e}", same)
    vocabulary = frequent(read_frequencies(root / "our-data" / FREQUENCIES, 256), KNOWN)
    chosen = read["known"].nonzero()[:, 0].tolist()
    assert vocabulary.ids is not None
    same = chosen == vocabulary.ids.tolist()
    yield Line("our token_freq.pt: the tokens chosen there", f"{len(chosen)} tokens", same)
    before, after = read["losses"].tolist()
    line = f"loss {before:.4f}, then {after:.4f}"
    yield Line("our-data: a step of EAGLE-3 there", line, after < before)


def _run(python: str, action: str, root: Path) -> None:
    subprocess.run([python, DATA, action, root], check=True, capture_output=True)


def _gap(one: torch.Tensor, other: torch.Tensor) -> float:
    """Returns the largest difference, as a share of the largest entry."""
    return float((one.float() - other.float()).abs().max() / other.float().abs().max())
