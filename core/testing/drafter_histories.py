"""Checks of a drafter whose drafts depend on what it has observed, or on earlier texts."""

from collections.abc import Callable, Sequence

from outrider.contract.chance import Chance
from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.testing.drafter_distributions import refusal, rule_for
from outrider.testing.enumerated import Seed, SeededChance
from outrider.testing.exact import (
    Setup,
    assert_lossless,
    distribution_of,
    loop_distribution,
    loop_text,
)
from outrider.testing.tiny_targets import (
    VOCAB_SIZE,
    bound_target,
    draft_after,
    opened,
    same_draft,
)
from outrider.verifiers.sample_match import SampleMatch

Make = Callable[[], Drafter]

EARLIER = ([1, 0, 0, 1], [1, 0, 1], [0, 0, 1, 1, 0])
"""Prompts of texts that end before another one begins."""


def check_observations_leave_the_text_exact(make: Make) -> None:
    """A drafter that `observes` may draft by what it observed in earlier rounds: over all outcomes
    of up to five rounds, the text has the target's distribution.
    """
    _check_loop(make)


def check_observations_over_more_rounds(make: Make) -> None:
    """The same holds for texts of four tokens of a larger vocabulary."""
    _check_loop(make, (VOCAB_SIZE, 4))


def check_memory_leaves_the_text_exact(make: Make) -> None:
    """A drafter that `remembers` may draft by texts that ended before: over all outcomes of several
    rounds, with the same memory each time, the text has the target's distribution.
    """
    _check_loop(make, earlier=EARLIER[:1])


def check_memory_tells_nothing_of_a_seed(make: Make) -> None:
    """With a text in memory that had the same seed, the next one has the target's distribution."""
    made = make()
    target = bound_target(made, 2 if refusal(make, 2) is None else VOCAB_SIZE)
    setup = Setup(target, made, rule_for(made), [0, 1], gamma=1, budget=2)

    def play(chance: Chance) -> tuple[int, ...]:
        made.forget()
        seed = Seed(chance)
        loop_text(setup, 2, SeededChance(seed, "text"))
        return loop_text(setup, 2, SeededChance(seed, "text"))

    assert_lossless(distribution_of(play), setup)


def _check_loop(
    make: Make, size: tuple[int, int] | None = None, earlier: Sequence[Sequence[int]] = ()
) -> None:
    """Raises AssertionError unless the loop keeps the distribution of texts.

    size: of the vocabulary, and the length of the texts. Defaults to many rounds with two tokens,
        or a few with more, for a drafter that can't have two.
    earlier: the prompts of texts in memory.
    """
    vocab_size, length = size or ((VOCAB_SIZE, 3) if refusal(make, 2) else (2, 5))
    drafter, target = opened(make, vocab_size)
    if size is None and target.model is not None:
        length = 3  # each of many outcomes takes passes of a model
    for rule in (SampleMatch(), rule_for(drafter)):
        setup = Setup(target, drafter, rule, [0, 1], gamma=1, budget=2, earlier=earlier)
        assert_lossless(loop_distribution(setup, length), setup)


def check_observations_end_with_the_text(make: Make) -> None:
    """What it observed in one text is not known in another, whichever of them was opened first."""
    used, new = make(), make()
    target = bound_target(used)
    new.bind(target)
    prompt = [0, 1, 2, 0, 1]
    early, untold = used.open(), draft_after(new.open(), target, prompt, 3)
    text = _written(target, used, prompt)
    for drafter in (used, early):
        drafter.forget()
    for tokens in (prompt, text, [3]):  # the next text may begin with all of this one
        expected = untold if tokens is prompt else draft_after(new.open(), target, tokens, 3)
        names = {"another instance": new.open(), "one opened before": early}
        for name, drafter in (names | {"one opened after": used.open()}).items():
            draft = draft_after(drafter, target, tokens, 3)
            assert same_draft(draft, expected), (
                f"after {tokens} {name} wrote {draft.tokens}, a new one {expected.tokens}:"
                " something was left over from what it observed in an earlier text"
            )


def check_memory_is_shared_by_texts(make: Make) -> None:
    """A drafter that `remembers` counts its texts, shares them with those that it has opened, and
    can forget them without these; the same texts lead to the same drafts.
    """
    used, other, new = make(), make(), make()
    target = bound_target(used)
    early = used.open()
    for drafter in (other, new):
        drafter.bind(target)
    assert used.remembered == 0, f"remembers {used.remembered} texts before the first"
    for count, prompt in enumerate(EARLIER, start=1):
        for drafter in (used, other):
            _written(target, drafter, prompt)
        for drafter, name in ((used, "it"), (early, "one opened before")):
            assert drafter.remembered == count, (
                f"{name} says {drafter.remembered} texts in memory after {count}"
            )
    late = used.open()
    used.forget()
    assert used.remembered == 0, f"remembers {used.remembered} texts once they are forgotten"
    for prompt in EARLIER:
        parts = (other.open(), new.open())
        by_memory, by_none = (draft_after(part, target, prompt, 3) for part in parts)
        for drafter, expected, name in (
            (early, by_memory, "one opened before the texts"),
            (late, by_memory, "one opened after the texts"),
            (used.open(), by_none, "one that has forgotten them"),
        ):
            draft = draft_after(drafter, target, prompt, 3)
            assert same_draft(draft, expected), (
                f"after {prompt} {name} wrote {draft.tokens}, expected {expected.tokens}"
            )


def parts_of(drafter: Drafter) -> list[Drafter]:
    """Returns the drafters among a drafter's attributes, also those in lists and mappings."""
    parts: list[object] = []
    for value in vars(drafter).values():
        held = value.values() if isinstance(value, dict) else value
        parts += held if isinstance(value, dict | list | tuple) else [value]
    return [part for part in parts if isinstance(part, Drafter)]


def check_its_parts_are_told_all(make: Make) -> None:
    """A drafter made of drafters needs what they need, and passes on to each what it observes,
    remembers and asks, as a `CompositeDrafter` does.
    """
    drafter = make()
    target = bound_target(drafter)
    for part in parts_of(drafter):
        name = f"its part {type(part).__name__}"
        for ability in ("asks", "observes", "observes_states", "remembers"):
            assert getattr(drafter, ability) or not getattr(part, ability), (
                f"{name} {ability.replace('_', ' ')}: expected it to be passed on, as a"
                " CompositeDrafter does"
            )
        missing = ", ".join(sorted(part.needs - drafter.needs))
        assert not missing, f"{name} needs {missing}: expected it in `needs`"
    _written(target, drafter, EARLIER[0])
    for part in parts_of(drafter):
        is_told = part.remembered > 0 or not part.remembers
        assert is_told, f"its part {type(part).__name__} was not told of a text that ended"


def _written(target: Target, drafter: Drafter, prompt: list[int]) -> list[int]:
    """Returns a prompt and the greedy text after it, once the drafter has helped to write it."""
    setup = Setup(target, drafter, SampleMatch(), prompt, gamma=2, sampling=Sampling(), budget=4)
    return [*prompt, *loop_text(setup, 8)]


OBSERVING = (check_observations_end_with_the_text, check_observations_leave_the_text_exact)
"""Checks of a drafter that `observes`."""

REMEMBERING = (
    check_memory_leaves_the_text_exact,
    check_memory_tells_nothing_of_a_seed,
    check_memory_is_shared_by_texts,
)
"""Checks of a drafter that `remembers`."""
