"""A target that serves no batches is served by one that takes its texts one by one."""

import torch

from outrider.decoding.batches.batched import batched
from outrider.targets.tabular import TabularTarget


def test_paths_are_scored_as_texts() -> None:
    target = TabularTarget(6)
    paths = [(1, 2), (1, 3), (), (4,)]
    logits = batched(target).path_scorer([0, 5])(paths)
    for path, row in zip(paths, logits, strict=True):
        torch.testing.assert_close(row, target.logits([0, 5, *path]))
