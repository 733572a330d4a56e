"""One call from a prompt to its text."""

from typing import Any

import pytest

import outrider
from outrider import ConfigError, Context, Drafter, DrafterError, Pen, Sampling
from outrider.drafters.none import NoDraft
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget

TARGET = TabularTarget(6)


def test_names_and_instances_are_both_taken() -> None:
    by_name = outrider.generate(TARGET, [0], "none", "token", max_new_tokens=10)
    made = outrider.generate(
        TARGET, [0], NoDraft(), outrider.plugins.make("verifier", "token"), max_new_tokens=10
    )
    assert by_name.tokens == made.tokens
    assert by_name.counts.emitted == 10
    assert by_name.stop == "max_new_tokens"
    assert by_name.seconds["total"] >= sum(by_name.seconds[x] for x in ("draft", "score"))


def test_a_folder_is_a_target(folder: Any) -> None:
    generation = outrider.generate(str(folder), "the cat sat", "none", max_new_tokens=5)
    target = TransformersTarget(str(folder))
    assert generation.text == target.tokenizer.decode(generation.tokens, skip_special_tokens=True)


def test_a_string_is_a_turn_of_a_chat_on_request(llama: Any, words: Any) -> None:
    words.chat_template = "{% for m in messages %}the {{ m['content'] }} ?{% endfor %}"
    try:
        target = TransformersTarget(llama(), words)
        assert target.encode("cat", chat=True) == words.encode("the cat ?")
        assert target.encode("cat") == words.encode("cat")
    finally:
        words.chat_template = None


@pytest.mark.parametrize(
    ("role", "wanted", "line"),
    [
        ("drafter", "bigrams", "drafter='bigrams': did you mean 'bigram'"),
        ("verifier", "tokn", "verifier='tokn': did you mean 'token'"),
        ("drafter", 3, "drafter=3: expected a name or an instance of Drafter"),
    ],
)
def test_what_is_neither_name_nor_instance(role: str, wanted: Any, line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        outrider.generate(TARGET, [0], **{role: wanted})


def test_a_failure_hands_over_what_was_finished() -> None:
    class Late(Drafter):
        calls = 0

        def propose(self, context: Context, pen: Pen) -> None:
            self.calls += 1
            if self.calls == 4:
                raise RuntimeError("late")

    with pytest.raises(DrafterError, match="Late raised RuntimeError: late") as caught:
        outrider.generate(TARGET, [0], Late(), sampling=Sampling(temperature=1.0))
    assert len(caught.value.generation.tokens) == 3  # type: ignore[attr-defined]
