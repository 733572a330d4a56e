"""Checks of the kit for the tree shapes of a drafter of which one tree passes the whole kit."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import yaml

from outrider.plugins.parts import make
from outrider.testing import checks_of
from outrider.testing.drafter_distributions import check_tokens_follow_recorded_distributions
from outrider.testing.drafters import (
    check_depends_only_on_context,
    check_paths_are_of_one_length,
    check_siblings_are_of_the_declared_kind,
    check_stays_within_gamma,
)

SHAPED = (
    check_stays_within_gamma,
    check_siblings_are_of_the_declared_kind,
    check_paths_are_of_one_length,
    check_depends_only_on_context,
    check_tokens_follow_recorded_distributions,
)
"""What a shape can break: it says which nodes are drawn after which, and in what way.

What the drafter reads of texts and features, and by which chance it draws, does not know the shape.
That drafts with right distributions lead to the target's text is the rules' to prove.
"""


def makers(texts: Sequence[str]) -> list[Callable[[], Any]]:
    """Returns what makes the drafters that are written as in a config."""
    return [partial(make, "drafter", yaml.safe_load(f"{{drafter: {text}}}")) for text in texts]


def parametrize_with_shapes(makes: Sequence[Callable[[], Any]]) -> Any:
    """Returns a decorator that makes one test of each drafter and each of these checks."""
    pairs = [(make, check) for make in makes for check in checks_of(make) if check in SHAPED]
    names = [check.__name__ for _, check in pairs]
    return pytest.mark.parametrize(("make", "check"), pairs, ids=names)
