"""The neighbour of a bench runs as long as the bench."""

import pytest

from outrider.extras.bench.neighbour import neighbour


def test_the_neighbour_runs_as_long_as_the_block() -> None:
    with neighbour() as process:
        assert process.poll() is None
    assert process.poll() is not None


def test_an_error_ends_the_neighbour_too() -> None:
    with pytest.raises(RuntimeError), neighbour() as process:
        raise RuntimeError
    assert process.poll() is not None
