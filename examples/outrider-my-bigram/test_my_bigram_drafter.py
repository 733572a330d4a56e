"""The package's proof that MyBigram keeps the contract: pytest runs a test for each check."""

from functools import partial

from outrider.testing import parametrize_with_checks

from outrider_my_bigram.drafter import MyBigram


@parametrize_with_checks([MyBigram, partial(MyBigram, reach=2)])
def test_my_bigram_keeps_the_contract(make, check):
    check(make)
