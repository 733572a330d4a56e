"""The fixtures of models that the native library runs, and of tests of it alone."""

import pytest
import torch
from tiny.native import built, native_model, older_library, short_library

__all__ = ["built", "native_model", "older_library", "short_library"]


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test draws the same numbers, also without the fixtures of all tests."""
    torch.manual_seed(0)
