"""Each drafter keeps the contract, in each setting that changes how it drafts."""

from functools import partial

from outrider.testing import parametrize_with_checks

from outrider_more_drafters.falcon import Falcon
from outrider_more_drafters.self_sparse import SelfSparse
from outrider_more_drafters.shallow_aggressive import ShallowAggressive

untrained = partial(Falcon, path="untrained")
MAKERS = [
    *(untrained, partial(untrained, tree="2x1"), partial(untrained, block=1)),
    *(partial(untrained, block=3), partial(untrained, tree="dynamic:4")),
    *(partial(SelfSparse, sink=1, window=2), partial(SelfSparse, sink=1, window=2, layers=1)),
    *(partial(SelfSparse, sink=0, window=2, picked=1, observed=2), ShallowAggressive),
]


@parametrize_with_checks(MAKERS)
def test_a_drafter_keeps_the_contract(make, check):
    check(make)
