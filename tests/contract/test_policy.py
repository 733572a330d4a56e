"""The fixed policy, and what a policy does unless it says otherwise."""

from outrider import Draft, Fixed


def test_fixed_drafts_to_the_full_depth() -> None:
    policy = Fixed()
    assert [policy.depth(gamma) for gamma in (1, 5)] == [1, 5]
    assert policy.more(Draft((1,), (-1,), (None,)))
    policy.reset()
