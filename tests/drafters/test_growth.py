"""The work of drafters that search a text grows with the text, not with its square."""

import inspect
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import pytest
from fuzz.strategies import drafters_for
from tiny.conformance import makers
from tiny.growth import growth

from outrider import Context, Draft, Drafter, Round, Sampling, Verifier, decode
from outrider.contract.context import Tokens
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.drafters.suffix import Past
from outrider.plugins.registry import installed
from outrider.targets.tabular import TabularTarget
from outrider.testing.tiny_targets import write_draft
from outrider.verifiers.recursive import Candidates
from outrider.verifiers.token import Token

TARGET = TabularTarget(12)
TEXTS: dict[str, Callable[[int], list[int]]] = {
    "one token": lambda size: [1] * size,
    "a period": lambda size: [1, 2, 3, 4, 5] * (size // 5),
    "no repetition": lambda size: [index % 7 + index % 5 for index in range(size)],
}
DRAFTERS = (
    *("bigram, order: 3", "unigram", "hybrid, drafters: [suffix, prompt_lookup]"),
    *("lookahead_decoding", "online", "online, capacity: 3", "prompt_lookup"),
    *("prompt_lookup, max_n: 300", "rest, path: untrained", "suffix"),
    *("suffix, capacity: 300", "token_recycling", "token_recycling, capacity: 3"),
)
MAKERS = dict(zip(DRAFTERS, makers(DRAFTERS), strict=True))
NO_SEARCH = {"none", "random"}
NETWORKS = {"swift"}
"""It remembers a choice of layers, which does not grow."""


def test_every_drafter_with_a_search_or_a_memory_is_here() -> None:
    searching, on_tables = set[str](), drafters_for(table=True, encoder=False)
    for name, entry in installed().of("drafter").items():
        source = Path(inspect.getfile(entry.product)).read_text()
        if name in on_tables or "drafters.parts.texts" in source:
            searching.add(name)
    assert searching == {text.split(",")[0] for text in DRAFTERS} | NO_SEARCH | NETWORKS


def written(drafter: Drafter, text: Sequence[int], tokens: int) -> Iterable[Round]:
    rule: Verifier = Candidates() if drafter.trees else Token()
    return decode(TARGET, drafter, rule, text, gamma=4, max_new_tokens=tokens)


def first_round(drafter: Drafter, text: Sequence[int]) -> Callable[[], Round]:
    return lambda: next(iter(written(drafter, text, 9)))


def first_draft(drafter: Drafter, text: Sequence[int]) -> Callable[[], Draft]:
    """Returns what drafts after a text."""
    context = Context(Tokens([0, *text]))
    drafter.bind(TARGET)
    return lambda: write_draft(drafter, TARGET, context, gamma=4, sampling=Sampling())


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", DRAFTERS)
def test_a_prompt_twice_as_long_takes_about_twice_the_work(name: str, text: str) -> None:
    make = MAKERS[name]
    first_draft(make(), [2, 1])()  # what is worked out once for all texts
    assert growth(lambda size: first_draft(make(), [2, *TEXTS[text](size)]), 200) < 2.6


@pytest.mark.parametrize("name", DRAFTERS)
def test_twice_the_tokens_take_about_twice_the_work(name: str) -> None:
    def texts(size: int) -> Callable[[], object]:
        drafter = MAKERS[name]()
        prompt = [1, 2] * (size if drafter.needs else 1)
        return lambda: list(written(drafter, prompt, size))

    assert growth(texts, 60) < 2.6


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", [name for name, make in MAKERS.items() if make().remembers])
def test_twice_the_texts_take_about_twice_the_work(name: str, text: str) -> None:
    def remembered(count: int) -> Callable[[], object]:
        drafter = MAKERS[name]()
        return lambda: [list(written(drafter, TEXTS[text](20), 4)) for _ in range(count)]

    assert growth(remembered, 10) < 2.6


@pytest.mark.parametrize("name", DRAFTERS)
def test_twice_the_drafts_of_a_text_take_about_twice_the_work(name: str) -> None:
    def drafts(size: int) -> Callable[[], object]:
        drafter, tokens = MAKERS[name](), [2, *TEXTS["no repetition"](2 * size)]
        drafter.bind(TARGET)
        draft = partial(write_draft, drafter, TARGET, gamma=4, sampling=Sampling())
        contexts = [Context(Tokens(tokens[:end])) for end in range(size, 2 * size, 5)]
        return lambda: [draft(each) for each in contexts]

    drafts(10)()
    assert growth(drafts, 100) < 2.6


UNLIMITED = {"token_recycling"}
"""Its memory has a row for each token of the vocabulary, at most."""


@pytest.mark.parametrize("name", sorted(set(installed().of("drafter")) - UNLIMITED))
def test_a_memory_of_texts_is_limited_unless_said(name: str) -> None:
    settings = inspect.signature(installed().of("drafter")[name].product).parameters
    assert "capacity" not in settings or settings["capacity"].default is not None


def test_longer_matches_hardly_take_more_work_or_memory() -> None:
    text = TEXTS["a period"](1000)
    tracemalloc.start()
    for most in (20, 400):
        tracemalloc.reset_peak()
        first_round(PromptLookup(max_n=most), text)()
        peak = tracemalloc.get_traced_memory()[1]
        assert peak < 8_000_000, most
    tracemalloc.stop()


def test_a_memory_keeps_to_its_capacity_and_drops_the_oldest_texts() -> None:
    past = Past(100)
    for number in range(200):
        past.learn([number, number + 1, *range(number, number + 8)])
        assert past.tokens <= 100
    assert past.size <= 10
    assert past.texts.step(0, 0, 199)[1] == 1  # of the newest text
    assert past.texts.step(0, 0, 3)[1] == 0
