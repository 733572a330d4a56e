"""Ground: what every proof rests on, checked before any part: chance, the pen and the loop."""

from outrider.testing import draws, loop_roles, loop_texts, loops, pen_turns, pens, written_drafts
from outrider.testing.facts import once


@once
def check_draws_are_as_likely_as_they_should_be() -> None:
    """Temperature, top-k, top-p and min-p give the distributions worked out by hand, and what is
    sampled from them has the probabilities that the kit adds up.
    """
    draws.assert_sampling()
    draws.assert_enumerated()
    draws.assert_sampled_as_enumerated()
    draws.assert_cut()


@once
def check_the_pen_records_what_was_drawn() -> None:
    """The pen records the distribution that it drew from, and numbers nodes, guesses and questions
    as it should; each draw under a coupled rule has the noise of its position.
    """
    pens.assert_records()
    pens.assert_greedy()
    pens.assert_guided()
    pen_turns.assert_continues()
    pen_turns.assert_noise()
    pen_turns.assert_asks()
    written_drafts.assert_trees()


@once
def check_the_pen_refuses_wrong_drafts() -> None:
    """The pen refuses wrong logits and tokens, more than gamma and budget allow, what comes after
    the policy has stopped, and an end that passes over a guess. A draft of another kind is seen.
    """
    pens.assert_bounds()
    pens.assert_stops()
    pen_turns.assert_settles()
    written_drafts.assert_kinds()


@once
def check_the_loop_counts_and_ends_as_it_should() -> None:
    """Drafts leave room for the target's token, and are as long as policy and budget say; rounds
    count what was drafted, tested and accepted; a text ends where it should.
    """
    loops.assert_lengths()
    loops.assert_counts()
    loops.assert_limits()
    loops.assert_policy()
    loops.assert_fit()


@once
def check_the_loop_keeps_its_parts_apart() -> None:
    """Drafts draw with their own noise, or with that of a coupled rule. Drafter, rule, constraint
    and the texts of a batch get what is theirs, and log-probabilities are the target's own.
    """
    loop_roles.assert_noise()
    loop_roles.assert_shown()
    loop_roles.assert_heard()
    loop_roles.assert_needs()
    loop_texts.assert_logprobs()
    loop_texts.assert_constrained()
    loop_texts.assert_steered()
    loop_texts.assert_seeds()


CHECKS = (
    check_draws_are_as_likely_as_they_should_be,
    check_the_pen_records_what_was_drawn,
    check_the_pen_refuses_wrong_drafts,
    check_the_loop_counts_and_ends_as_it_should,
    check_the_loop_keeps_its_parts_apart,
)
