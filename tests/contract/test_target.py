"""What every target has in common: prompts become ids, checked."""

import numpy as np
import pytest
import torch

from outrider import ConfigError
from outrider.targets.tabular import TabularTarget


def test_ids_pass_through_as_plain_integers() -> None:
    target = TabularTarget(6)
    assert target.encode([0, 5]) == [0, 5]
    assert type(target.encode(np.array([3]))[0]) is int


@pytest.mark.parametrize("prompt", ["", "  "])
def test_an_empty_prompt_is_refused(prompt: str) -> None:
    with pytest.raises(ConfigError, match="expected some text"):
        TabularTarget(6).encode(prompt)


def test_paths_are_scored_as_texts() -> None:
    target = TabularTarget(6)
    paths = [(1, 2), (1, 3), (), (4,)]
    logits = target.path_scorer([0, 5])(paths)
    for path, row in zip(paths, logits, strict=True):
        torch.testing.assert_close(row, target.logits([0, 5, *path]))
