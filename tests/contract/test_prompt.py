"""A prompt in a chat template is there as it was given, or one line says what the template does."""

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

import outrider
from outrider import ConfigError, TargetError
from outrider.contract.prompt import in_chat_template
from outrider.targets.tabular import TabularTarget

PARTS = "{% for m in messages %}{% for p in m.content %}<{{ p.text }}>{% endfor %}{% endfor %}"
BROKEN: Mapping[str, Any] = {
    "roles must alternate": "{{ raise_exception('Conversation roles must alternate') }}",
    "rag": {"rag": "{{ messages }}", "tool_use": "{{ messages }}"},
}
"""Templates that fail, by what the line says."""


@pytest.fixture
def tokenizer(words: Any) -> Any:
    yield words
    words.chat_template = None


@pytest.mark.parametrize("reason", BROKEN)
def test_a_template_that_fails_is_one_line(tokenizer: Any, reason: str) -> None:
    tokenizer.chat_template = BROKEN[reason]
    target = TabularTarget(len(tokenizer))
    target.tokenizer = tokenizer
    with pytest.raises(TargetError) as caught:
        outrider.generate(target, "the cat", chat=True)
    line = str(caught.value)
    assert line.startswith("chat template of ") and reason in line and "\n" not in line


def test_a_template_that_loses_the_prompt_is_one_line(tokenizer: Any) -> None:
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}{% endfor %}"
    with pytest.raises(TargetError, match="leaves out the prompt 'the cat'"):
        in_chat_template(tokenizer, ["the cat"])


def test_a_template_that_reads_parts_is_given_parts(tokenizer: Any) -> None:
    tokenizer.chat_template = PARTS
    assert in_chat_template(tokenizer, ["the", "a", "cat"]) == "<the><a><cat>"


def test_turns_are_the_users_and_answers_by_turns(tokenizer: Any) -> None:
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}:{{ m.content }} {% endfor %}"
    assert in_chat_template(tokenizer, ["a", "b", "c"]) == "user:a assistant:b user:c "


@pytest.mark.parametrize(
    "prompt",
    [
        b"hi", [[1], [2]], [True], [1.5], ["hi"], {"ids": [1]}, {0}, 5, None, iter([0]),
        torch.tensor([0.5]), torch.empty(2, device="meta"), [{"role": "user"}], "", "  ",
    ],
)  # fmt: skip
def test_a_thing_that_is_no_prompt_is_one_line(prompt: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"^prompt=.*: expected (text, or the ids of one|some text|one prompt;)"
    ):
        outrider.generate(TabularTarget(6), prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        torch.tensor([[0, 1]]), torch.tensor([0, 1]), np.array([0, 1]), (0, 1), [[0, 1]],
        {"input_ids": torch.tensor([[0, 1]])}, [np.int32(0), torch.tensor(1)], ((0, 1),),
        [torch.tensor([0, 1])], np.array([0, 1], dtype=object), range(2), deque([0, 1]),
    ],
)  # fmt: skip
def test_ids_are_taken_as_people_have_them(prompt: Any) -> None:
    ids = TabularTarget(6).encode(prompt)
    assert ids == [0, 1] and {type(id) for id in ids} == {int}


def encoding(result: Any) -> Any:
    """Returns a tokenizer that gives a result for every text, or raises it."""

    class Mine:
        def __call__(self, text: str, **_: Any) -> Any:
            if isinstance(result, BaseException):
                raise result
            return result

        def decode(self, ids: Any, **_: Any) -> str:
            return "a" * len(ids)

    return Mine()


@pytest.mark.parametrize("result", [{"ids": [0]}, [[0], [1]], RuntimeError("two\nlines")])
def test_a_tokenizer_that_gives_no_ids_is_one_line(result: Any) -> None:
    target = TabularTarget(6)
    target.tokenizer = encoding(result)
    with pytest.raises(TargetError, match=r"^tokenizer Mine (returned .*|raised )") as caught:
        outrider.generate(target, "hi")
    assert "\n" not in str(caught.value)


MESSAGES = [{"role": "system", "content": "a dog"}, {"role": "user", "content": "the cat"}]


def test_messages_are_taken_as_people_have_them(tokenizer: Any) -> None:
    target = TabularTarget(len(tokenizer))
    target.tokenizer = tokenizer
    line = r"^prompt=\[\{'role': .*: expected text or ids, there is no chat template$"
    with pytest.raises(ConfigError, match=line):
        outrider.generate(target, MESSAGES)
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}"
    expected = tokenizer("system a dog user the cat ", add_special_tokens=False)["input_ids"]
    assert target.encode(MESSAGES) == target.encode(tuple(MESSAGES), chat=True) == expected
    tokenizer.chat_template = "{{ raise_exception('no system') }}"
    with pytest.raises(TargetError, match=r"^chat template of .* raised"):
        outrider.generate(target, MESSAGES)
