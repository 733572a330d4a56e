"""REST: the draft is what most often followed the longest match in a store of texts."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tiny.drafters import bound

from outrider import Draft, Drafter, Sampling, Target
from outrider.drafters.parts.texts.datastore import write_store
from outrider.drafters.rest import Rest
from outrider.targets.tabular import TabularTarget
from outrider.testing import parametrize_with_checks
from outrider.testing.tiny_targets import draft_after

TARGET = TabularTarget(20)
TEXTS = [[1, 2, 3, 4, 5], [9, 2, 3, 4, 6], [8, 2, 3, 7], [2, 3, 4, 5]]


class OnStage(Drafter):
    """REST with a store of the vocabulary that it is bound to."""

    kind = "deterministic"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rest = Rest(str(folder), min_n=1, tree=True)

    def bind(self, target: Target) -> None:
        texts = [[token % target.vocab_size for token in text] for text in (*TEXTS, [0, 1, 0, 2])]
        write_store(self._folder, texts, target)
        self._rest.bind(target)

    def propose(self, context: Any, pen: Any) -> None:
        self._rest.propose(context, pen)


@pytest.fixture
def path(tmp_path: Path) -> str:
    write_store(tmp_path, TEXTS, TARGET)
    return str(tmp_path)


def draft(path: str, text: list[int], gamma: int = 3, **settings: Any) -> Draft:
    drafter = bound(Rest(path, **settings), TARGET)
    return draft_after(drafter, TARGET, text, gamma, sampling=Sampling())


@parametrize_with_checks([partial(OnStage, Path("store"))])
def test_conformance(
    make: Callable[[], Any],
    check: Callable[[Any], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    check(make)


def test_the_chain_is_the_most_frequent_continuation(path: str) -> None:
    assert draft(path, [0, 2, 3]).tokens == (4, 5)  # a text ends there
    assert draft(path, [0, 9, 2, 3]).tokens == (4, 6)  # the longer match decides
    assert draft(path, [0, 9, 2, 3], max_n=2).tokens == (4, 5)
    assert draft(path, [2, 3], gamma=1).tokens == (4,)
    assert draft(path, [0, 3]).tokens == ()
    assert draft(path, [0, 3], min_n=1).tokens == (4, 5)
    assert draft(path, [5]).tokens == ()


def test_the_tree_has_the_most_frequent_nodes(path: str) -> None:
    whole = draft(path, [2, 3], tree=True)
    assert whole.tokens == (4, 5, 7, 6)  # seen 3, 2, 1 and 1 times
    assert whole.parents == (-1, 0, -1, 0)
    assert draft(path, [2, 3], gamma=1, tree=True).tokens == (4, 7)
