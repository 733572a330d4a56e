"""Shared prefixes: random texts that share, leave and end find the tokens that they began with."""

import random

import pytest

from outrider.extras.cpu.shared_prefixes import SharedPrefixes


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
