"""A tiny target, and texts of it with their states."""

from pathlib import Path
from typing import Any

import pytest
import torch

from outrider import Sampling
from outrider.extras.training.corpus import collect_texts
from outrider.extras.training.generated_texts import Text, Writing
from outrider.extras.training.states import compute_states
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.transformers import TransformersTarget


@pytest.fixture
def target(deep_llama: Any, words: Any) -> TransformersTarget:
    return TransformersTarget(deep_llama(), words)


@pytest.fixture
def collect(tmp_path: Path) -> Any:
    """Collects texts of a target in a file of the test's folder, greedy and drawn ones in turn."""
    samplings = [Sampling(), Sampling(temperature=1.0)]

    def collected(
        target: Any, count: int, prompts: Any = (), name: str = "x", tokens: int = 8
    ) -> list[Text]:
        writing = Writing(True, samplings, question_tokens=4, max_new_tokens=tokens)
        path = tmp_path / f"{name}.jsonl"
        return collect_texts(target, prompts, path, count, writing=writing)

    return collected


@pytest.fixture
def texts() -> list[Text]:
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(8, 20, (24,), generator=generator).tolist()
    return [
        Text(torch.randint(2, 31, (length,), generator=generator).tolist(), 2, 4)
        for length in lengths
    ]


@pytest.fixture
def examples(target: Any, texts: Any, tmp_path: Path) -> Any:
    names = [HIDDEN, *(f"{HIDDEN}.{layer}" for layer in range(5))]
    return compute_states(target, texts, names, tmp_path / "states")
