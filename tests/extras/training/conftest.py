"""A tiny target, and texts of it with their states."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from outrider.extras.training.generated_texts import Text
from outrider.extras.training.states import compute_states
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.transformers import TransformersTarget


@pytest.fixture
def console() -> Console:
    return Console(file=StringIO(), width=200)


@pytest.fixture
def target(deep_llama: Any, words: Any) -> TransformersTarget:
    return TransformersTarget(deep_llama(), words)


@pytest.fixture
def texts() -> list[Text]:
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(8, 20, (24,), generator=generator).tolist()
    return [
        Text(torch.randint(2, 31, (length,), generator=generator).tolist(), 2, 4)
        for length in lengths
    ]


@pytest.fixture
def examples(target: Any, texts: Any, tmp_path: Path, console: Console) -> Any:
    names = [HIDDEN, *(f"{HIDDEN}.{layer}" for layer in range(5))]
    return compute_states(target, texts, names, tmp_path / "states", console)
