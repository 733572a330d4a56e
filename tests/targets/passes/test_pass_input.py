"""Calls of transformers' own modules."""

from inspect import Parameter, Signature
from typing import Any

import pytest
from transformers.masking_utils import create_causal_mask

from outrider.targets.passes.pass_input import cache_argument


def forward_with(*parameters: Parameter) -> Any:
    def forward() -> None: ...

    forward.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return forward


@pytest.mark.parametrize("name", ["cache", "past_key_values", "cache_params"])
def test_a_cache_is_given_by_the_name_that_a_model_has_for_it(name: str) -> None:
    forward = forward_with(Parameter(name, Parameter.KEYWORD_ONLY))
    assert cache_argument(forward) == name


def test_a_cache_that_is_handed_on_is_given_by_the_librarys_name() -> None:
    forward = forward_with(Parameter("options", Parameter.VAR_KEYWORD))
    assert cache_argument(forward) == cache_argument(create_causal_mask)
