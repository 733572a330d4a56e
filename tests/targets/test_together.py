"""Texts in one batch are those that each would be alone, whatever is drafted and accepted."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from outrider import ConfigError, SampledChance, Sampling, decode
from outrider.decoding.decode import decode_together
from outrider.drafters.eagle import Eagle
from outrider.drafters.lookahead_decoding import LookaheadDecoding
from outrider.drafters.none import NoDraft
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.drafters.random import Random
from outrider.drafters.self_sparse import SelfSparse
from outrider.drafters.small_lm import SmallLM
from outrider.runtime.linear import pack
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.candidates import Candidates
from outrider.verifiers.token import Token
from outrider.verifiers.without_replacement import WithoutReplacement

PROMPTS = [[3, 4, 5, 3, 4], [9], [7, 8] * 9, [2, 11, 2, 11, 2], [6, 5, 4]]
DRAFTERS: dict[str, tuple[Callable[[], Any], Any]] = {
    "none": (NoDraft, Token()),
    "random": (Random, Token()),
    "prompt_lookup": (PromptLookup, Token()),
    "small_lm": (lambda: SmallLM(layers=4), Token()),
    "small_lm tree": (lambda: SmallLM(layers=4, tree="2x2"), WithoutReplacement()),
    "eagle": (lambda: Eagle(path="untrained"), Token()),
    "eagle tree": (lambda: Eagle(path="untrained", tree="top:2x2"), Candidates()),
    "policy": (LookaheadDecoding, Candidates()),
    "self_sparse": (lambda: SelfSparse(sink=1, window=3), Token()),
}


@pytest.fixture(scope="module", params=["plain", "packed"])
def target(request: Any, llama: Any) -> Any:
    model = copy.deepcopy(llama(max_position_embeddings=400))
    if request.param == "packed":
        pack(model)
    return TransformersTarget(model)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", list(DRAFTERS))
def test_a_text_is_the_one_it_would_be_alone(name: str, temperature: float, target: Any) -> None:
    make, rule = DRAFTERS[name]
    sampling = Sampling(temperature=temperature, seed=5)
    options: dict[str, Any] = {"gamma": 3, "budget": 6, "sampling": sampling, "max_new_tokens": 40}
    alone = [
        [
            (each.tokens, each.draft, each.path, each.stop)
            for each in decode(target, make(), rule, prompt, **options)
        ]
        for prompt in PROMPTS
    ]
    together: list[list[Any]] = [[] for _ in PROMPTS]
    first = make()
    first.bind(target)
    drafters = [first.fork() for _ in PROMPTS]
    for number, each in decode_together(target, drafters, rule, PROMPTS, **options):
        together[number].append((each.tokens, each.draft, each.path, each.stop))
    assert together == alone
    assert len({len(rounds) for rounds in alone}) > 1  # they don't end in step


def test_texts_pass_the_room_that_a_cache_starts_with(target: Any) -> None:
    prompts = [[3, 4, 5], [5, 6, 7] * 80]
    options: dict[str, Any] = {"gamma": 4, "max_new_tokens": 40}
    rounds = decode_together(target, [PromptLookup(), PromptLookup()], Token(), prompts, **options)
    found: list[list[int]] = [[], []]
    for number, each in rounds:
        found[number] += each.tokens
    for prompt, text in zip(prompts, found, strict=True):
        alone = decode(target, PromptLookup(), Token(), prompt, **options)
        assert text == [token for each in alone for token in each.tokens]


def test_each_text_may_have_a_chance_of_its_own() -> None:
    target = TabularTarget(vocab_size=5, order=1)
    options: dict[str, Any] = {"sampling": Sampling(temperature=1.0), "max_new_tokens": 12}
    chances = [SampledChance.seeded(seed) for seed in (1, 2)]
    drafters = [NoDraft(), NoDraft()]
    found: list[list[int]] = [[], []]
    for number, each in decode_together(
        target, drafters, Token(), [[1], [1]], chances=chances, **options
    ):
        found[number] += each.tokens
    for seed, text in zip((1, 2), found, strict=True):
        chance = SampledChance.seeded(seed)
        alone = decode(target, NoDraft(), Token(), [1], chance=chance, **options)
        assert text == [token for each in alone for token in each.tokens]
    assert found[0] != found[1]


def test_every_prompt_has_a_drafter() -> None:
    with pytest.raises(ConfigError, match="drafters=1: expected one for each prompt"):
        decode_together(TabularTarget(), [NoDraft()], Token(), [[1], [2]])


def test_states_are_those_of_the_text(target: Any) -> None:
    """What a drafter is shown in a batch is what it is shown alone, whatever was rejected."""
    shown: list[dict[int, Any]] = []

    class Spy(Random):
        needs = frozenset({"hidden_states", "hidden_states.2"})

        def __init__(self) -> None:
            super().__init__()
            shown.append({})
            self._at = len(shown) - 1

        def propose(self, context: Any, pen: Any) -> None:
            if context.features:
                shown[self._at][len(context.tokens)] = {
                    name: rows.clone() for name, rows in context.features.items()
                }
            super().propose(context, pen)

    drafters = [Spy() for _ in PROMPTS]
    for _ in decode_together(target, drafters, Token(), PROMPTS, gamma=3, max_new_tokens=20):
        pass
    together = list(shown)
    for number, prompt in enumerate(PROMPTS):
        shown.clear()
        for _ in decode(target, Spy(), Token(), prompt, gamma=3, max_new_tokens=20):
            pass
        assert together[number].keys() == shown[0].keys()
        for length, features in shown[0].items():
            for name, rows in features.items():
                mine = together[number][length][name]
                assert len(mine) == length - 1
                torch.testing.assert_close(mine, rows, rtol=1e-4, atol=1e-5)
