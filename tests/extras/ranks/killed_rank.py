"""Run by torchrun: outrider, on a rank that is killed in a pass.

python -m torch.distributed.run --nproc-per-node 2 killed_rank.py RANK generate ...
"""

import os
import signal
import sys
from typing import Any

from transformers.models.llama.modeling_llama import LlamaMLP

from outrider.cli import main as cli

SELF_TEST = 5
"""Passes that show what the target can do."""

LAYERS = 5 * SELF_TEST + 13
"""The rank is killed in the thirteenth layer after them: the third layer of the third pass."""

count = 0
inner = LlamaMLP.forward


def forward(self: LlamaMLP, *arguments: Any) -> Any:
    global count
    count += 1
    if count == LAYERS:
        os.kill(os.getpid(), signal.SIGKILL)
    return inner(self, *arguments)


if sys.argv.pop(1) == os.environ["RANK"]:
    LlamaMLP.forward = forward  # type: ignore[method-assign]
cli.main()
