"""The processes that torchrun has started, by its environment variables."""

import os
from threading import Event

FIELD = "target.tensor_parallel"
"""The setting that spreads a model over them."""

LOST = Event()
"""Set once another of them could not be reached: whatever fails then is due to that."""


def world() -> int:
    """Returns how many processes torchrun has started; 1 without it."""
    launched = "TORCHELASTIC_RUN_ID" in os.environ
    return int(os.environ.get("WORLD_SIZE", "1")) if launched else 1


def rank() -> int:
    """Returns the number of this process among them, from 0."""
    return int(os.environ.get("RANK", "0")) if world() > 1 else 0
