"""Calls of transformers' own modules."""

from typing import Any

import pytest
from transformers.masking_utils import create_causal_mask

from outrider.targets.passes.forward import cache_argument


def new(self: Any, _ids: Any, cache: Any = None) -> None: ...


def old(self: Any, _ids: Any, past_key_values: Any = None) -> None: ...


def recurrent(self: Any, _ids: Any, cache_params: Any = None) -> None: ...


def handing_on(self: Any, *args: Any, **options: Any) -> None: ...


@pytest.mark.parametrize(
    ("forward", "name"),
    [
        (new, "cache"),
        (old, "past_key_values"),
        (recurrent, "cache_params"),
        (handing_on, cache_argument(create_causal_mask)),
    ],
)
def test_a_cache_is_given_by_the_name_that_a_model_has_for_it(forward: Any, name: str) -> None:
    assert cache_argument(forward) == name
