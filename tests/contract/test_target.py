"""What every target has in common: prompts become ids, checked."""

import numpy as np
import pytest

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
