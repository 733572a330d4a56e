"""A run that goes on is the same as one that was not interrupted, whatever drafters remember."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tiny.comparisons import timeless

from outrider import Drafter, Sampling
from outrider.data.prompts import Prompt
from outrider.drafters.bandit import Bandit
from outrider.drafters.hierarchy import Hierarchy
from outrider.drafters.hybrid import Hybrid
from outrider.drafters.ngram import bigram
from outrider.drafters.online import Online
from outrider.drafters.parts.texts.text_memory import RememberingDrafter
from outrider.drafters.suffix import Suffix
from outrider.drafters.swift import Swift
from outrider.drafters.token_recycling import TokenRecycling
from outrider.lab.measuring import compare
from outrider.lab.measuring.compare import fit, measure, questions
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.measuring.variants import Settings, Variant
from outrider.plugins.registry import installed
from outrider.policies.entropy import Entropy
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.recursive import Candidates
from outrider.verifiers.token import Token

PROMPTS = [
    Prompt("a", "chat", ("the cat sat on the mat", "the cat sat")),
    Prompt("b", "chat", ("one two three one two",)),
    Prompt("c", "code", ("the cat sat on one two",)),
]
MAKERS: dict[str, Callable[[], Variant]] = {
    "suffix": lambda: Variant(Suffix(), Token()),
    "swift": lambda: Variant(Swift(window=8), Token()),
    "token_recycling": lambda: Variant(TokenRecycling(), Candidates()),
    "online": lambda: Variant(Online(), Token()),
    "bandit": lambda: Variant(Bandit(["suffix", "bigram"], c=[0.1, 0.2]), Token()),
    "hybrid": lambda: Variant(Hybrid(["suffix", "bigram"]), Token()),
    "learning policy": lambda: Variant(bigram(), Token(), Entropy(target=0.5)),
}


def test_every_drafter_that_remembers_is_tried() -> None:
    entries = installed().of("drafter")
    products = {name: entry.product for name, entry in entries.items()}
    remembering = {
        name
        for name, product in products.items()
        if isinstance(product, type)
        and product is not Hierarchy  # its part may, and has no memory by default
        and (issubclass(product, RememberingDrafter) or product.remember is not Drafter.remember)
    }
    assert remembering == MAKERS.keys() - {"learning policy"}


@pytest.fixture(scope="module")
def deep(llama: Any, words: Any) -> TransformersTarget:
    return TransformersTarget(llama(3, num_hidden_layers=5), words)


@pytest.fixture
def measured(deep: TransformersTarget) -> Callable[..., list[Measurement]]:
    """Measures a variant, after what is done already."""

    def go(
        name: str, protocol: str, settings: Settings, done: Sequence[Measurement] = ()
    ) -> list[Measurement]:
        answers = protocol == "overlap"
        asked = questions(deep, PROMPTS, settings, chat=False, answers=answers)
        variants = {name: MAKERS[name]()}
        fit(deep, variants)
        options = {"protocol": protocol, "done": done}
        return list(measure(deep, variants, asked, settings, **options))

    return go


DECODED = [
    Settings(gamma=3, budget=6, max_new_tokens=6, repeats=2),
    Settings(gamma=3, budget=6, max_new_tokens=6, sampling=Sampling(1.0), together=2),
]


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("settings", DECODED, ids=["greedy", "sampled together"])
def test_decoding_is_learned_from_again(
    measured: Callable[..., list[Measurement]], name: str, settings: Settings
) -> None:
    whole = measured(name, "decode", settings)
    resumed = [*whole[:2], *measured(name, "decode", settings, whole[:2])]
    assert timeless(resumed) == timeless(whole)


@pytest.mark.parametrize("name", ["suffix", "swift", "hybrid"])
def test_texts_are_remembered_again(measured: Callable[..., list[Measurement]], name: str) -> None:
    settings = Settings(gamma=3, max_new_tokens=6, sampling=Sampling(1.0))
    whole = measured(name, "overlap", settings)
    resumed = [*whole[:2], *measured(name, "overlap", settings, whole[:2])]
    assert timeless(resumed) == timeless(whole)


def test_without_its_memory_a_run_would_go_on_otherwise(
    measured: Callable[..., list[Measurement]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for protocol, learning in (("decode", "learn_again"), ("overlap", "remember")):
        whole = measured("suffix", protocol, DECODED[0])
        with monkeypatch.context() as patch:
            patch.setattr(compare, learning, lambda *_: None)
            resumed = [*whole[:2], *measured("suffix", protocol, DECODED[0], whole[:2])]
        assert timeless(resumed) != timeless(whole)
