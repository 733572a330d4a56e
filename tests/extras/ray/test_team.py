"""A team of workers, on a Ray without processes."""

from collections.abc import Sequence
from typing import Any

import pytest
from tiny.stub_ray import StubRay

from outrider import ConfigError
from outrider.extras.ray.team import Call, Team, WorkerError


class Squaring:
    """A worker that squares, and can't do so with 13."""

    def start(self) -> str:
        return "ready"

    def square(self, number: int) -> int:
        if number == 13:
            raise ConfigError("number=13: expected another")
        return number * number


def team_of(ray: StubRay, workers: int = 2, retries: int = 1) -> tuple[Team, list[str]]:
    """Returns a started team, and what its workers say when they start."""
    said: list[str] = []
    hire: Any = ray.remote()(Squaring).remote
    first = Call("start", (), "the start of a worker")
    team = Team(ray, hire, first, said.append, workers=workers, retries=retries)
    team.start()
    return team, said


def squares(team: Team, numbers: Sequence[int]) -> dict[int, Any]:
    """Returns what the team answers, by the number of the call."""
    return dict(team.results([Call("square", (n,), f"square of {n}") for n in numbers]))


def test_every_call_is_answered_once() -> None:
    team, said = team_of(StubRay(), workers=3)
    for numbers in ([5, 6, 7, 8, 9], [2], []):
        assert squares(team, numbers) == {i: n * n for i, n in enumerate(numbers)}
    assert said == ["ready"] * 3


def test_a_call_whose_worker_died_is_made_again_by_another() -> None:
    ray = StubRay({"square": {0, 3}})
    team, _ = team_of(ray)
    assert squares(team, [1, 2, 3]) == {0: 1, 1: 4, 2: 9}
    assert ray.hired == 4
    assert ray.made["square"] == 5


def test_a_worker_that_dies_while_it_starts_is_replaced() -> None:
    ray = StubRay({"start": {0}})
    team, said = team_of(ray, workers=1)
    assert squares(team, [4]) == {0: 16}
    assert (ray.hired, said) == (2, ["ready"])


def test_a_call_that_kills_every_worker_is_an_error() -> None:
    team, _ = team_of(StubRay({"square": {0, 1}}), workers=1)
    line = r"^square of 7: its worker died 2 times \(killed\)$"
    with pytest.raises(WorkerError, match=line):
        squares(team, [7])


def test_an_error_of_a_worker_is_raised_here() -> None:
    team, _ = team_of(StubRay())
    with pytest.raises(ConfigError, match=r"^number=13: expected another$"):
        squares(team, [13])
