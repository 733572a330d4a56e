"""Each text of a batch is the one it would be alone, whatever is drafted and accepted."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny.drafters import InTurn

from outrider import Constraint, Sampling, decode
from outrider.decoding.batches import continuous_batch
from outrider.decoding.batches.batch_target import BatchTarget, batched, score_one_by_one
from outrider.decoding.decode import decode_together
from outrider.drafters.eagle import Eagle
from outrider.drafters.lookahead_decoding import LookaheadDecoding
from outrider.drafters.none import NoDraft
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.drafters.random import Random
from outrider.drafters.small_lm import SmallLM
from outrider.drafters.swift import Swift
from outrider.drafters.token_recycling import TokenRecycling
from outrider.targets.passes.engine import MODULES, engine_of, use_engine
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.recursive import Candidates, WithoutReplacement
from outrider.verifiers.token import Token

PROMPTS = [[3, 4, 5, 3, 4], [9], [7, 8] * 9]
DRAFTERS: dict[str, tuple[Callable[[], Any], Any]] = {
    "none": (NoDraft, Token()), "random": (Random, Token()),
    "prompt_lookup": (PromptLookup, Token()), "small_lm": (lambda: SmallLM(layers=2), Token()),
    "small_lm tree": (lambda: SmallLM(layers=2, tree="2x2"), WithoutReplacement()),
    "eagle": (lambda: Eagle(path="untrained"), Token()),
    "eagle tree": (lambda: Eagle(path="untrained", tree="top:2x2"), Candidates()),
    "policy": (LookaheadDecoding, Candidates()), "token_recycling": (TokenRecycling, Candidates()),
    "swift": (Swift, Token()),
}  # fmt: skip


@pytest.fixture(scope="module", params=["plain", "packed"])
def target(request: Any, llama: Any) -> Any:
    model = copy.deepcopy(llama(max_position_embeddings=400))
    if request.param == "packed":
        use_engine(model, "packed")
    return TransformersTarget(model)


def rounds_alone(
    target: Any, name: str, prompts: list[list[int]], **options: Any
) -> list[list[Any]]:
    """Returns what is kept of the rounds of each text, written alone."""
    make, rule = DRAFTERS[name]
    return [
        [
            (round.tokens, round.draft, round.path, round.stop)
            for round in decode(target, make(), rule, prompt, number=number, **options)
        ]
        for number, prompt in enumerate(prompts)
    ]


def rounds_together(
    target: Any, name: str, prompts: list[list[int]], size: int, **options: Any
) -> list[list[Any]]:
    """Returns the same of texts that are written together, at most so many at a time."""
    make, rule = DRAFTERS[name]
    texts: list[list[Any]] = [[] for _ in prompts]
    in_progress: set[int] = set()
    for number, round in decode_together(target, make(), rule, prompts, batch_size=size, **options):
        texts[number].append((round.tokens, round.draft, round.path, round.stop))
        in_progress.add(number)
        assert len(in_progress) <= size
        if round.stop is not None:
            in_progress.remove(number)
    return texts


@pytest.mark.parametrize("name", list(DRAFTERS))
def test_a_text_in_a_batch_is_the_text_written_alone(name: str, target: Any) -> None:
    sampling = Sampling(temperature=float(engine_of(target.model) is MODULES), seed=5)
    options: dict[str, Any] = {"gamma": 3, "budget": 6, "sampling": sampling, "max_new_tokens": 20}
    alone = rounds_alone(target, name, PROMPTS, **options)
    assert rounds_together(target, name, PROMPTS, len(PROMPTS), **options) == alone
    assert len({len(rounds) for rounds in alone}) > 1  # they don't end in step


LONGER = [*PROMPTS, [8, 9] * 13, [12, 3, 4] * 5, [30], [5, 4, 3, 2] * 7]


@pytest.mark.parametrize("name", ["none", "prompt_lookup", "small_lm tree", "eagle"])
def test_texts_that_join_others_are_those_written_alone(
    name: str, target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(continuous_batch, "READ", 7)  # so that prompts are read in parts
    options: dict[str, Any] = {"gamma": 3, "budget": 6, "max_new_tokens": 12}
    alone = rounds_alone(target, name, LONGER, **options)
    for size in (1, 2, 3):
        assert rounds_together(target, name, LONGER, size, **options) == alone


def test_a_prompt_that_joins_is_read_between_the_rounds_of_others(
    target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(continuous_batch, "READ", 10)
    parts: list[int] = []
    kind = type(batched(target).open_together([[3]])[0].group)  # type: ignore[attr-defined]
    read = kind.read

    def watched(self: Any, number: int, tokens: Any, states: Any) -> Any:
        parts.append(len(tokens))
        return read(self, number, tokens, states)

    monkeypatch.setattr(kind, "read", watched)
    prompts = [[3, 4, 5] * 10, [6, 5, 4], [7, 8] * 16]
    monkeypatch.setattr(target, "eos", frozenset())
    constraints: list[Any] = [Ends(99), Ends(2), Ends(2)]  # the second text ends early
    rounds = list(
        decode_together(
            target, NoDraft(), Token(), prompts,
            batch_size=2, max_new_tokens=9, constraints=constraints,
        )
    )  # fmt: skip
    assert parts == [29, 10, 10, 10]  # the first prompt at once, since nobody waited for it
    numbers = [number for number, _ in rounds]
    assert numbers == [0, 1, 0, 1, 0, 0, 0, 0, 2, 0, 2, 0, 0]


class Ends(Constraint):
    """Ends a text after so many tokens."""

    def __init__(self, count: int) -> None:
        self._count, self._start = count, 0

    def begin(self, target: Any, ids: Any) -> "Ends":
        self._start = len(ids)
        return self

    def ends(self, ids: Any) -> bool:
        return len(ids) - self._start >= self._count


def test_a_target_that_lets_no_text_join_gets_one_batch_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[int] = []

    class Grouped(TabularTarget, BatchTarget):
        def open_together(self, prompts: Any, needs: Any = frozenset()) -> Any:
            opened.append(len(prompts))
            return [self.open(prompt, needs) for prompt in prompts]

        def score_together(self, sessions: Any, drafts: Any) -> Any:
            return score_one_by_one(sessions, drafts)

    target = Grouped(vocab_size=5, order=1)
    target.eos = frozenset({3})
    options: dict[str, Any] = {"sampling": Sampling(temperature=1.0), "max_new_tokens": 9}
    prompts = [[1], [2], [0], [4], [1]]
    texts = rounds_together(target, "none", prompts, 2, **options)
    assert opened == [2, 2, 1]
    assert texts == rounds_alone(target, "none", prompts, **options)


def test_texts_outgrow_the_initial_room(target: Any) -> None:
    given: Any = target, "prompt_lookup", [[3, 4, 5], [5, 6, 7] * 80]
    options: dict[str, Any] = {"gamma": 4, "max_new_tokens": 40}
    assert rounds_together(*given, 2, **options) == rounds_alone(*given, **options)


def test_states_are_those_of_the_text(target: Any) -> None:
    """A drafter reads the same states in a batch as alone, whatever was rejected."""
    features_by_length: list[dict[int, Any]] = []

    class Spy(Random):
        needs = frozenset({"hidden_states", "hidden_states.2"})

        def __init__(self) -> None:
            super().__init__()
            features_by_length.append({})
            self._at = len(features_by_length) - 1

        def propose(self, context: Any, pen: Any) -> None:
            if context.features:
                features_by_length[self._at][len(context.tokens)] = {
                    name: rows.clone() for name, rows in context.features.items()
                }
            super().propose(context, pen)

    drafter = InTurn([Spy() for _ in PROMPTS])
    for _ in decode_together(target, drafter, Token(), PROMPTS, gamma=3, max_new_tokens=20):
        pass
    together = list(features_by_length)
    for number, prompt in enumerate(PROMPTS):
        features_by_length.clear()
        for _ in decode(target, Spy(), Token(), prompt, gamma=3, max_new_tokens=20):
            pass
        (alone,) = features_by_length
        assert together[number].keys() == alone.keys()
        for length, features in alone.items():
            for name, rows in features.items():
                states = together[number][length][name]
                assert len(states) == length - 1
                torch.testing.assert_close(states, rows, rtol=1e-4, atol=1e-5)
