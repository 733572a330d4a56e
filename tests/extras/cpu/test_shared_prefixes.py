"""Origins: random texts that share, leave and end always find the tokens that they began with."""

import random

import pytest

from outrider.targets.passes.shared_prefixes import Origins


def test_rows_that_share_nothing_need_no_table() -> None:
    origins = Origins(2)
    assert origins.table() is None and origins.leave(0) is None and origins.free(1) is None


def test_the_origin_is_the_row_that_holds_the_tokens() -> None:
    origins = Origins(2)
    origins.add_row()
    assert origins.share(1, 0, 10) is None
    assert origins.share(2, 1, 5) is None
    table = origins.table()
    assert table is not None and table.tolist() == [[0, 0, 0], [0, 10, 5]]
    assert origins.free(0) == (1, 10)
    assert origins.leave(2) == (1, 5)
    assert origins.table() is None


def test_a_row_with_more_than_its_origin_becomes_one() -> None:
    origins = Origins(3)
    assert origins.share(1, 0, 10) is None
    assert origins.share(2, 1, 15) == (0, 10)
    table = origins.table()
    assert table is not None and table.tolist() == [[0, 0, 1], [0, 0, 15]]


@pytest.mark.parametrize("seed", range(20))
def test_every_row_finds_its_tokens(seed: int) -> None:
    """Rows of numbers stand for keys and values, and are copied as the answers say."""
    draw, origins = random.Random(seed), Origins(4)
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
            if origin := origins.leave(row):
                copy(origin[0], row, origin[1])
        else:
            if heir := origins.free(row):
                copy(row, heir[0], heir[1])
            texts[row] = [draw.random()]
            if action == "share":
                count = draw.randint(1, len(texts[source]))
                texts[row] = texts[source][:count]
            rows[row] = [0.0] * len(texts[row]) if action == "share" else list(texts[row])
            if action == "share" and (origin := origins.share(row, source, count)):
                copy(origin[0], source, origin[1])
        table = origins.table()
        held = [[0] * 4] * 2 if table is None else table.tolist()
        for number, text in enumerate(texts):
            origin, count = held[0][number], held[1][number]
            assert [*rows[origin][:count], *rows[number][count:]] == text
