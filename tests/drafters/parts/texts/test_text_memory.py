"""What drafters remember of texts is bounded, and goes from run to run in a file."""

import itertools
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tiny.growth import operations

from outrider import ConfigError, Drafter, Target, Verifier, decode
from outrider.drafters.hybrid import Hybrid
from outrider.drafters.online import Online
from outrider.drafters.suffix import Suffix
from outrider.drafters.swift import Swift
from outrider.drafters.token_recycling import TokenRecycling
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.recursive import Candidates
from outrider.verifiers.token import Token

TARGET = TabularTarget(12, seed=1)
PROMPTS = ([1, 2, 3, 1, 2], [4, 2, 3, 1], [5, 5, 6], [2, 3, 7])
Make = Callable[..., Drafter]


def hybrid(**settings: Any) -> Hybrid:
    return Hybrid([{"drafter": "suffix", **settings}])


MAKERS: dict[str, Make] = {
    "suffix": Suffix,
    "suffix with a capacity": partial(Suffix, capacity=20),
    "token_recycling": TokenRecycling,
    "token_recycling with a capacity": partial(TokenRecycling, capacity=4),
    "online": Online,
    "online with a capacity": partial(Online, capacity=9, keep=3),
    "hybrid": hybrid,
}


def written(drafter: Drafter, prompt: list[int], target: Target = TARGET) -> list[object]:
    """Returns the drafts of a text, and what was accepted of them."""
    rule: Verifier = Candidates() if drafter.trees else Token()
    rounds = decode(target, drafter, rule, prompt, gamma=3, budget=6, max_new_tokens=8)
    return [(round.draft, round.parents, round.tokens) for round in rounds]


@pytest.mark.parametrize("name", MAKERS)
def test_a_memory_is_kept_from_run_to_run(name: str, tmp_path: Path) -> None:
    make, path = MAKERS[name], tmp_path / "new" / "memory"
    one = make()
    for count, prompt in enumerate(PROMPTS * 6):
        other = make(memory=str(path))
        assert written(other, prompt) == written(one, prompt), count
        assert other.remembered == one.remembered == count + 1


def test_the_layers_that_swift_skips_go_from_run_to_run(llama: Any, tmp_path: Path) -> None:
    target, path = TransformersTarget(llama(num_hidden_layers=6)), tmp_path / "memory"
    one = Swift()
    for prompt in PROMPTS:
        other = Swift(memory=str(path))
        assert written(other, prompt, target) == written(one, prompt, target)
    path.write_text(path.read_text().replace(", 1", ", 5"))
    with pytest.raises(ConfigError, match=r"drafter\.memory=.*: expected 2 of the layers 1 to 4"):
        Swift(memory=str(path)).bind(target)


@pytest.mark.parametrize("make", [partial(Suffix, capacity=40), TokenRecycling, Online])
def test_a_file_does_not_grow_with_the_texts_and_a_text_adds_a_line(
    make: Make, tmp_path: Path
) -> None:
    path, sizes, work = tmp_path / "memory", list[int](), list[int]()
    drafter = make(memory=str(path))
    for number in range(60):
        work.append(operations(partial(written, drafter, PROMPTS[number % 4])))
        sizes.append(path.read_text().count("\n"))
    assert max(sizes[30:]) <= max(sizes[:30]) <= 30
    assert sum(after == before + 1 for before, after in itertools.pairwise(sizes)) > 45
    assert sum(work[30:]) < 1.2 * sum(work[:30])


def test_measuring_begins_with_the_file_and_leaves_it_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    written(Suffix(memory=str(path)), PROMPTS[0])
    content, measured = path.read_bytes(), Suffix(memory=str(path))
    for _ in range(2):
        measured.forget()
        assert measured.remembered == 0
        drafts = [written(measured, prompt) for prompt in PROMPTS]
        assert measured.remembered == len(PROMPTS) + 1
    fresh = Suffix(memory=str(path))
    assert [written(fresh, prompt) for prompt in PROMPTS] == drafts
    assert path.read_bytes() != content and path.read_bytes().startswith(content)


def test_a_last_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    drafter = Suffix(memory=str(path))
    for prompt in PROMPTS[:2]:
        written(drafter, prompt)
    path.write_bytes(path.read_bytes()[:-3])
    for count in (2, 3):
        again = Suffix(memory=str(path))
        written(again, PROMPTS[2])
        assert again.remembered == count
    path.write_bytes(b"")
    again.bind(TabularTarget(12))
    assert again.remembered == 0


def changed(number: int, line: object) -> Callable[[list[str]], list[str]]:
    text = line if isinstance(line, str) else json.dumps(line)
    return lambda lines: [*lines[:number], text, *lines[number + 1 :]]


def header(**facts: object) -> Callable[[list[str]], list[str]]:
    return lambda lines: [json.dumps(json.loads(lines[0]) | facts), *lines[1:]]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (changed(1, [1, 12]), "line 2: damaged, entry=.*expected a list, each a whole number in"),
        (changed(2, "[1, 2"), "line 3: damaged, expected JSON"),
        (header(vocab_size=9), "its vocabulary has 9 tokens, the target's 12"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(change: Any, line: str, tmp_path: Path) -> None:
    path = tmp_path / "memory"
    drafter = Suffix(memory=str(path))
    for prompt in PROMPTS[:2]:
        written(drafter, prompt)
    path.write_text("\n".join(change(path.read_text().split("\n"))))
    with pytest.raises(ConfigError, match=rf"drafter\.memory='.*memory'(:|, ) ?{line}") as error:
        Suffix(memory=str(path)).bind(TARGET)
    assert "\n" not in str(error.value) and len(str(error.value)) < 700


ROW = [[1, 2], 2, [3, 4], [0.5, 1.5]]
"""What `online` keeps after the n-gram 1, 2: two distributions."""


@pytest.mark.parametrize(
    "row",
    [
        ROW[:3],
        [[1, 2], 2, [3], [0.5, 1.5]],
        [[1, 2], 2, [3, 4], [math.nan, 1.5]],
    ],
)
def test_sums_that_no_text_has_are_one_line(row: Any, tmp_path: Path) -> None:
    path = tmp_path / "memory"
    written(Online(memory=str(path)), PROMPTS[0])
    header, _ = path.read_text().split("\n", 1)
    path.write_text(f"{header}\n{json.dumps([ROW])}\n")
    Online(memory=str(path)).bind(TARGET)
    path.write_text(f"{header}\n{json.dumps([ROW, row])}\n")
    with pytest.raises(ConfigError, match=r"line 2: damaged, entry=.*expected .*n-gram") as error:
        Online(memory=str(path)).bind(TARGET)
    assert "\n" not in str(error.value)


def test_of_a_table_the_tokens_that_were_seen_last_stay() -> None:
    drafter = TokenRecycling(candidates=1, capacity=2)
    for table in ([[1, 5], [2, 6]], [[1, 7]], [[3, 8]]):
        drafter.learn(table)
    past = drafter.open()
    drafts = {token: written(past, [token])[0] for token in (1, 2, 3)}
    assert {token: draft[0][:1] for token, draft in drafts.items()} == {1: (7,), 2: (), 3: (8,)}  # type: ignore[index]
