"""A table whose tokens are letters, for grammars."""

from typing import Any

import pytest
import tokenizers
from transformers import PreTrainedTokenizerFast

from outrider.targets.tabular import TabularTarget

LETTERS = {"<eos>": 0, "a": 1, "b": 2, "ab": 3}


@pytest.fixture(scope="session")
def letters() -> Any:
    """A tokenizer of a, b and ab."""
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(LETTERS, merges=[("a", "b")]))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>")


@pytest.fixture
def spelling(letters: Any) -> TabularTarget:
    """A table over those tokens, in which <eos> ends a text."""
    target = TabularTarget(len(LETTERS), order=1, seed=4)
    target.tokenizer, target.eos = letters, frozenset({0})
    return target
