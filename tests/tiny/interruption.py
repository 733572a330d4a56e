"""An interruption at a chosen call of a module, as by Ctrl-C."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from torch import nn


@contextmanager
def interrupted(module: nn.Module, after: int) -> Iterator[None]:
    """Raises `KeyboardInterrupt` at a call of a module; what is within must let it through.

    after: how many calls come before it.
    """
    calls = iter(range(after))

    def interrupt(*_: Any) -> None:
        if next(calls, None) is None:
            raise KeyboardInterrupt

    handle = module.register_forward_pre_hook(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        handle.remove()
