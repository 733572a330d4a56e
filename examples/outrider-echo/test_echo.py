"""The package's proof that Echo is a valid drafter: pytest runs one test for each check."""

from functools import partial

from outrider_echo import Echo

from outrider.testing import parametrize_with_checks


@parametrize_with_checks([Echo, partial(Echo, period=1)])
def test_echo_keeps_the_contract(make, check):
    check(make)
