"""Requests are recognised by their text, wherever their rows go, and pass their drafters on."""

import numpy as np

from outrider.contract.drafter import Drafter
from outrider.drafters.none import NoDraft
from outrider.extras.serving.vllm_requests import PATIENCE, Request, Requests, Row


def row(*ids: int) -> Row:
    return np.array(ids, dtype=np.int32)


def test_a_request_leads_to_rows_that_begin_with_its_text() -> None:
    request = Request()
    request.grow(row(1, 2, 300))
    assert list(request.context.tokens) == [1, 2, 300]
    assert request.leads_to(row(1, 2, 300)) and request.leads_to(row(1, 2, 300, 4))
    for other in (row(1, 2), row(1, 2, 3), row(9, 2, 300, 4), row(1, 9, 300)):
        assert not request.leads_to(other)
    request.grow(row(1, 2, 300, 4))
    assert request.ids == [1, 2, 300, 4]
    assert not request.leads_to(row(1, 2, 300))


def test_rows_that_move_pause_and_end() -> None:
    made: list[Drafter] = []

    def make() -> Drafter:
        made.append(NoDraft())
        return made[-1]

    requests = Requests(make)
    one, other = requests.follow([row(1), row(2)])
    assert requests.drafter(one) is requests.drafter(one) is made[0]
    assert requests.drafter(other) is made[1]
    assert requests.follow([row(2, 5), row(1, 5)]) == [other, one]
    for _ in range(PATIENCE - 1):
        (same,) = requests.follow([row(1, 5)])
        assert same is one
    assert requests.follow([row(2, 5, 6)]) == [other]  # it was missing, but not for too long
    for _ in range(PATIENCE):
        requests.follow([])
    assert len(requests.follow([row(1, 5, 6), row(3)])) == 2
    assert requests.drafter(requests.follow([row(3, 4)])[0]) in made
    assert len(made) == 2


def test_a_failed_drafter_is_not_lent_again() -> None:
    requests = Requests(NoDraft)
    (request,) = requests.follow([row(1)])
    failed = requests.drafter(request)
    requests.give_up(request)
    assert request.failed
    for _ in range(PATIENCE + 1):
        requests.follow([])
    (another,) = requests.follow([row(1)])
    assert not another.failed and requests.drafter(another) is not failed
