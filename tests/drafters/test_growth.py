"""The work of drafters that search a text grows with the text, not with its square."""

import itertools
import tracemalloc
from collections.abc import Callable, Sequence

import pytest
import torch
from tiny.growth import growth

from outrider import Context, Drafter, decode
from outrider.contract.context import Tokens
from outrider.drafters.prompt_lookup import KEY, PromptLookup
from outrider.drafters.suffix import Past, Suffix
from outrider.targets.tabular import TabularTarget
from outrider.verifiers.token import Token

TARGET = TabularTarget(12)
TEXTS: dict[str, Callable[[int], list[int]]] = {
    "one token": lambda size: [1] * size,
    "a period": lambda size: [1, 2, 3, 4, 5] * (size // 5),
    "no repetition": lambda size: [index % 7 + index % 5 for index in range(size)],
}


def first_round(drafter: Drafter, text: Sequence[int]) -> Callable[[], object]:
    return lambda: next(iter(decode(TARGET, drafter, Token(), text, gamma=4)))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("make", [Suffix, PromptLookup, lambda: PromptLookup(max_n=300)])
def test_twice_the_text_takes_about_twice_the_work(make: Callable[[], Drafter], text: str) -> None:
    assert growth(lambda size: first_round(make(), TEXTS[text](size)), 400) < 2.6


def test_longer_matches_hardly_take_more_work_or_memory() -> None:
    text = TEXTS["a period"](1000)
    tracemalloc.start()
    for most in (20, 400):
        tracemalloc.reset_peak()
        first_round(PromptLookup(max_n=most), text)()
        peak = tracemalloc.get_traced_memory()[1]
        assert peak < 8_000_000, most
    tracemalloc.stop()


def naive(ids: Sequence[int], sizes: range, newest: bool) -> int | None:
    """Returns what `PromptLookup` copies from, by trying all positions for each length."""
    for n in sizes:
        places = [p for p in range(n, len(ids)) if ids[p - n : p] == ids[len(ids) - n :]]
        if n < len(ids) and places:
            return places[-1] if newest else places[0]
    return None


@pytest.mark.parametrize(("max_n", "min_n"), [(KEY, 1), (KEY + 1, 1), (14, 2), (12, 11), (40, 9)])
@pytest.mark.parametrize("newest", [True, False])
def test_drafts_are_those_of_trying_all_positions(max_n: int, min_n: int, newest: bool) -> None:
    chance = torch.Generator().manual_seed(max_n)
    for _ in range(60):
        size, words = (int(torch.randint(2, high, (1,), generator=chance)) for high in (60, 4))
        ids = torch.randint(words, (size,), generator=chance).tolist()
        ids += ids[: size // 2]
        expected = naive(ids, range(max_n, min_n - 1, -1), newest)
        round = first_round(PromptLookup(max_n, min_n, newest), ids)()
        copied = () if expected is None else tuple(itertools.islice(_from(ids, expected), 4))
        assert round.draft == copied  # type: ignore[attr-defined]


def _from(ids: list[int], position: int) -> itertools.chain[int]:
    period = ids[position:]
    return itertools.chain(period, itertools.cycle(period))


def test_a_memory_keeps_to_its_capacity_and_drops_the_oldest_texts() -> None:
    past = Past(100)
    for number in range(200):
        past.learn([number, number + 1, *range(number, number + 8)])
        assert past.tokens <= 100
    assert past.size <= 10
    assert past.texts.step(0, 0, 199)[1] == 1  # of the newest text
    assert past.texts.step(0, 0, 3)[1] == 0


def test_within_its_capacity_a_memory_drafts_as_one_without_a_limit() -> None:
    drafters = [Suffix(), Suffix(capacity=10_000)]
    for text in ([1, 2, 3, 4, 1, 2], [2, 3, 5, 1, 2, 3], [5, 1, 2]):
        drafts = [first_round(drafter, text)().draft for drafter in drafters]  # type: ignore[attr-defined]
        assert drafts[0] == drafts[1]
        for drafter in drafters:
            drafter.remember(Context(Tokens(text)))
