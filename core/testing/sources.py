"""Checks of a data source: each takes a callable that returns its prompts."""

from collections.abc import Callable

from outrider.data.prompts import Prompt, is_encodable

Make = Callable[[], list[Prompt]]


def check_prompts_are_conversations(make: Make) -> str | None:
    """A source returns prompts with ids of their own and turns of text."""
    prompts = make()
    for prompt in prompts:
        assert isinstance(prompt, Prompt), f"it returned {prompt!r}, no Prompt"
        assert prompt.turns, f"prompt {prompt.id!r} has no turns"
        for turn in prompt.turns:
            is_text = isinstance(turn, str) and turn != "" and is_encodable(turn)
            assert is_text, f"prompt {prompt.id!r}: {turn!r} is no text in UTF-8"
    ids = [prompt.id for prompt in prompts]
    twice = {identity for identity in ids if ids.count(identity) > 1}
    assert not twice, f"several prompts are called {sorted(twice)}"
    return None if prompts else "it has no prompts"


def check_prompts_are_the_same_again(make: Make) -> None:
    """A source returns the same prompts in the same order each time: runs can be resumed."""
    assert make() == make(), "the source returned other prompts the second time"


CHECKS = (check_prompts_are_conversations, check_prompts_are_the_same_again)
