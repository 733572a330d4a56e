"""Checks of a drafter whose drafts depend on more than the context: on what it has observed."""

from collections.abc import Callable

from outrider.contract.drafter import Drafter
from outrider.decoding.decode import decode
from outrider.testing.drafter_distributions import assert_equal, refusal
from outrider.testing.exact import Setup, loop_distribution, target_distribution
from outrider.testing.stage import SAMPLED, VOCAB_SIZE, draft_after, same_draft, stage
from outrider.verifiers.sample_match import SampleMatch
from outrider.verifiers.token import Token
from outrider.verifiers.traversal import Traversal

Make = Callable[[], Drafter]


def check_observations_leave_the_text_exact(make: Make) -> str | None:
    """A drafter that `observes` may draft by what it observed in earlier rounds: over all outcomes
    of up to five rounds, the text has the target's distribution.
    """
    if not make().observes:
        return None
    _check_loop(make, VOCAB_SIZE, 3)
    reason = refusal(make, 2)
    if reason is None:
        _check_loop(make, 2, 5)
    return reason


def check_observations_over_more_rounds(make: Make) -> None:
    """The same holds for texts of four tokens of a larger vocabulary."""
    if make().observes:
        _check_loop(make, VOCAB_SIZE, 4)


def _check_loop(make: Make, vocab_size: int, length: int) -> None:
    drafter = make()
    target = stage(drafter, vocab_size)
    for rule in (SampleMatch(), Traversal() if drafter.trees else Token()):
        exact = target_distribution(target, [0, 1], length, SAMPLED, rule)
        setup = Setup(target, drafter, rule, [0, 1], gamma=1, sampling=SAMPLED, budget=2)
        assert_equal(loop_distribution(setup, length), exact)


def check_observations_end_with_the_text(make: Make) -> None:
    """What it observed is forgotten before the next text, and a fork knows nothing of it."""
    used, new = make(), make()
    if not used.observes:
        return
    target = stage(used)
    new.bind(target)
    prompt = [0, 1, 2, 0, 1]
    rounds = decode(target, used, SampleMatch(), prompt, gamma=2, budget=4, max_new_tokens=8)
    text = prompt + [token for round in rounds for token in round.tokens]
    fork = used.fork()
    used.reset()
    for tokens in (text, prompt, [3]):  # the next text may begin with all of this one
        expected = draft_after(new, target, tokens, 3)
        for drafter, name in ((fork, "its fork"), (used, "it")):
            draft = draft_after(drafter, target, tokens, 3)
            assert same_draft(draft, expected), (
                f"after {tokens} {name} wrote {draft.tokens}, a new one {expected.tokens}:"
                " something was left over from what it observed in an earlier text"
            )
