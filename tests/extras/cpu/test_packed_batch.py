"""Texts of one cache: prompts are read along with drafts, and once where they begin alike."""

import random
from typing import Any

import pytest
import torch

from outrider.contract.draft import Draft
from outrider.extras.cpu import packed_batch
from outrider.extras.cpu.native_pass import native_pass
from outrider.extras.cpu.packed_batch import PackedBatch, SharedPrefixes
from outrider.targets.passes.engine import run_pass
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import PassInput

IDS = torch.randint(0, 90, (1, 130), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of tokens of each pass."""
    counts: list[int] = []

    def counted(model: Any, cache: Any, inputs: PassInput, packing: Any) -> Any:
        counts.append(inputs.ids.numel())
        return native_pass(model, cache, inputs, packing)

    monkeypatch.setattr(packed_batch, "native_pass", counted)
    return counts


def logits_alone(model: Any, text: list[int], rows: int) -> torch.Tensor:
    return run_pass(model, GrowingCache(), PassInput(torch.tensor([text]), rows)).logits


def test_a_text_in_a_batch_has_its_own_logits(native_model: Any) -> None:
    lengths = (3, 21, 40)
    group = PackedBatch(native_model, len(lengths))
    for number, length in enumerate(lengths):
        group.read(number, IDS[0, :length].tolist(), ())
    draft = Draft((5, 6), (-1, 0))
    pending = [[7], [8, 9], [10]]
    passes = group.feed(range(3), pending, [draft] * 3, ())
    for number, length in enumerate(lengths):
        text = [*IDS[0, :length].tolist(), *pending[number], 5, 6]
        assert torch.equal(passes[number].logits, logits_alone(native_model, text, 3))


def test_a_tree_in_a_batch_has_the_logits_of_its_paths(native_model: Any) -> None:
    lengths = (3, 40)
    chains, trees = PackedBatch(native_model, 2), PackedBatch(native_model, 2)
    for batch in (chains, trees):
        for number, length in enumerate(lengths):
            batch.read(number, IDS[0, :length].tolist(), ())
    drafts = [Draft((5, 6), (-1, -1)), Draft((7,), (-1,))]
    tree, chain = trees.feed(range(2), [[8], [9]], drafts, ())
    drafts = [Draft((6,), (-1,)), Draft((7,), (-1,))]
    path, same = chains.feed(range(2), [[8], [9]], drafts, ())
    assert torch.equal(tree.logits[:, [0, 2]], path.logits)
    assert torch.equal(chain.logits, same.logits)


@pytest.mark.parametrize("parents", [(-1, 0), (-1, -1)], ids=["chain", "tree"])
def test_a_part_of_a_prompt_is_read_in_the_pass_of_a_draft(
    parents: tuple[int, int], native_model: Any, passes: list[int]
) -> None:
    """Many rows of one text, and few of others; with a tree, all of them have a mask."""
    texts = [IDS[0, :100].tolist(), [7, 8, 9], IDS[0, 20:110].tolist(), [3]]
    group = PackedBatch(native_model, len(texts))
    group.read(0, texts[0][:20], ())
    group.feed([1], [texts[1][:1]], [Draft()], ())
    group.read(0, texts[0][20:-1], ())
    group.read(2, texts[2][:-1], ())
    pending = [texts[0][-1:], texts[1][1:], texts[2][-1:], texts[3]]
    draft = Draft((5, 6), parents)
    results = group.feed(range(4), pending, [draft] * 4, ())
    assert passes == [20 + 1, 79 + 89 + 1 + 2 + 1 + 1 + 4 * 2]
    most = 1e-5 if native_model.dtype is torch.float32 else 1e-2
    for text, result in zip(texts, results, strict=True):
        alone = torch.cat([logits_alone(native_model, [*text, *ends], 1) for ends in ([], [5])], 1)
        torch.testing.assert_close(result.logits[:, :2], alone, rtol=most, atol=most)


def test_a_common_prefix_of_prompts_is_read_once(native_model: Any, passes: list[int]) -> None:
    start = IDS[0, :40].tolist()
    texts = [[*start, 1, 2], [5, 6], [*start, 3], [*start[:20], 4], [*start[:7], 5]]
    group = PackedBatch(native_model, len(texts))
    for number, text in enumerate(texts):
        group.read(number, text[:-1], ())
    pending = [text[-1:] for text in texts]
    results = group.feed(range(5), pending, [Draft()] * 5, ())
    # The third text needs what waits of the first, and the last begins with too little.
    assert passes == [41 + 1, 7 + 5]
    for text, result in zip(texts, results, strict=True):
        assert torch.equal(result.logits, logits_alone(native_model, text, 1))


def test_a_prompt_read_in_parts_shares_its_read_part(native_model: Any, passes: list[int]) -> None:
    text = IDS[0, :60].tolist()
    group = PackedBatch(native_model, 3)
    group.read(0, text[:30], ())
    group.read(1, text[:50], ())
    group.read(0, text[30:50], ())
    group.read(2, [9, *text[1:50]], ())  # alike but for the first
    results = group.feed(range(3), [text[50:]] * 3, [Draft()] * 3, ())
    assert sum(passes) == 30 + 20 + 0 + 50 + 3 * 10
    for first, result in zip((text[0], text[0], 9), results, strict=True):
        alone = logits_alone(native_model, [first, *text[1:]], 1)
        torch.testing.assert_close(result.logits, alone, rtol=1e-2, atol=1e-2)


def test_a_text_that_joins_shares_nothing_with_its_rows_former_text(native_model: Any) -> None:
    group = PackedBatch(native_model, 2)
    for number in (0, 1):
        group.read(number, IDS[0, :30].tolist(), ())
        group.feed([number], [[3]], [Draft()], ())
    number = group.join({1})
    group.read(number, IDS[0, 40:70].tolist(), ())
    (result,) = group.feed([number], [[4]], [Draft()], ())
    assert torch.equal(result.logits, logits_alone(native_model, [*IDS[0, 40:70].tolist(), 4], 1))


@pytest.mark.parametrize("parents", [(-1, 0), (-1, -1)], ids=["chain", "tree"])
def test_a_shared_prefix_outlives_its_owner(parents: tuple[int, int], native_model: Any) -> None:
    start = IDS[0, :40].tolist()
    texts = [start, [*start, 1, 2], [*start[:30], 3], [5, 6, 7]]
    group = PackedBatch(native_model, len(texts))
    for number, text in enumerate(texts):
        group.read(number, text, ())
        group.feed([number], [[4]], [Draft()], ())
    joined = group.join({1, 2, 3})
    group.read(joined, IDS[0, 60:110].tolist(), ())
    texts[0] = IDS[0, 60:110].tolist()
    for _ in range(2):
        draft = Draft((5, 6), parents)
        results = group.feed([joined, 1, 2, 3], [[8]] * 4, [draft] * 4, ())
        for number, result in zip((joined, 1, 2, 3), results, strict=True):
            text = [*texts[0], 8] if number == joined else [*texts[number], 4, 8]
            assert torch.equal(result.logits[:, :2], logits_alone(native_model, [*text, 5], 2))
            group.retain_rows(number, 3, [])
        joined = group.join({joined, 1, 2, 3})  # in a new row, which none shares with
        group.read(joined, texts[0], ())


def test_a_long_part_is_read_behind_a_shared_prefix(native_model: Any) -> None:
    """Its attention is that of many rows, which begin in the middle of a panel."""
    first, second = IDS[0, :40].tolist(), IDS[0, :128].tolist()
    group = PackedBatch(native_model, 2)
    for number, text in enumerate((first, second)):
        group.read(number, text, ())
        (result,) = group.feed([number], [[3]], [Draft()], ())
    alone = logits_alone(native_model, [*second, 3], 1)
    torch.testing.assert_close(result.logits, alone, rtol=1e-2, atol=1e-2)


def test_states_are_read_behind_a_shared_prefix(native_model: Any) -> None:
    start = IDS[0, :40].tolist()
    group, exact = PackedBatch(native_model, 2), GrowingCache()
    for number in (0, 1):
        group.read(number, start, ())
        group.feed([number], [[3]], [Draft()], ())
    states = group.read(1, [7, 8, 9], {2})[2]
    run_pass(native_model, exact, PassInput(torch.tensor([[*start, 3]]), 1))
    right = run_pass(native_model, exact, PassInput(torch.tensor([[7, 8, 9]]), 1, states={2}))
    torch.testing.assert_close(states, right.states[2][0], rtol=1e-2, atol=1e-2)


def test_rows_that_share_nothing_need_no_table() -> None:
    prefixes = SharedPrefixes(2)
    assert prefixes.table() is None and prefixes.leave(0) is None and prefixes.free(1) is None


@pytest.mark.parametrize("seed", range(20))
def test_every_row_finds_its_tokens(seed: int) -> None:
    """Rows of numbers stand for keys and values, and are copied as the answers say."""
    draw, prefixes = random.Random(seed), SharedPrefixes(4)
    rows = [[draw.random() for _ in range(draw.randrange(1, 9))] for _ in range(4)]
    texts = [list(row) for row in rows]  # what each row is to show

    def copy(source: int, row: int, count: int) -> None:
        rows[row][:count] = rows[source][:count]

    for _ in range(200):
        row, source = draw.sample(range(4), 2)
        action = draw.choice(["new", "share", "leave", "append"])
        if action == "append":
            texts[row].append(draw.random())
            rows[row].append(texts[row][-1])
        elif action == "leave":
            if origin := prefixes.leave(row):
                copy(origin[0], row, origin[1])
        else:
            if heir := prefixes.free(row):
                copy(row, heir[0], heir[1])
            texts[row] = [draw.random()]
            if action == "share":
                count = draw.randint(1, len(texts[source]))
                texts[row] = texts[source][:count]
            rows[row] = [0.0] * len(texts[row]) if action == "share" else list(texts[row])
            if action == "share" and (origin := prefixes.share(row, source, count)):
                copy(origin[0], source, origin[1])
        table = prefixes.table()
        held = [[0] * 4] * 2 if table is None else table.tolist()
        for number, text in enumerate(texts):
            origin, count = held[0][number], held[1][number]
            assert [*rows[origin][:count], *rows[number][count:]] == text
