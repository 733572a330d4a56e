"""Conversations with tools are replayed: every answer is asked for after what came before it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider import ConfigError, TargetError
from outrider.data.jsonl import jsonl
from outrider.data.prompts import without_tools
from outrider.lab.measuring.compare import questions
from outrider.lab.measuring.variants import Settings
from outrider.targets.tabular import TabularTarget

TOOLS = [{"type": "function", "function": {"name": "cat", "parameters": {}}}]
CALL = {"id": "c1", "type": "function", "function": {"name": "cat", "arguments": '{"a": 1}'}}
TALK: list[dict[str, Any]] = [
    {"role": "developer", "content": "one"},
    {"role": "user", "content": "the dog"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "two", "tool_call_id": "c1"},
    {"role": "assistant", "content": "three"},
    {"role": "user", "content": [{"type": "text", "text": "and"}]},
]
TEMPLATE = (
    "{% for t in tools or [] %}tool {{ t.function.name }} {% endfor %}"
    "{% for m in messages %}{{ m.role }} {{ m.content }} "
    "{% for c in m.tool_calls or [] %}{{ c.function.name }} {{ c.function.arguments.a }} "
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}assistant {% endif %}"
)
START = "tool cat system one user the dog assistant "
RENDERED = (
    START,
    START + " cat 1 tool two assistant ",
    START + " cat 1 tool two assistant three user and assistant ",
)


@pytest.fixture
def target(words: Any) -> Iterator[Any]:
    words.chat_template = TEMPLATE
    made = TabularTarget(len(words))
    made.tokenizer = words
    yield made
    words.chat_template = None


def row(folder: Path, **record: Any) -> Any:
    (folder / "rows.jsonl").write_text(json.dumps(record))
    return jsonl(str(folder / "rows.jsonl"))


def ids(target: Any, text: str) -> list[int]:
    return list(target.tokenizer(text, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize("shared", [False, True])
def test_each_answer_follows_the_conversation_as_the_template_writes_it(
    target: Any, tmp_path: Path, shared: bool
) -> None:
    """The texts are written here by hand, in the names of OpenAI's messages and of ShareGPT's."""
    names = {"user": "human", "assistant": "gpt", "tool": "observation", "developer": "system"}
    talk = [
        {"from": names[own.pop("role")], "value": own.pop("content"), **own} if shared else own
        for own in map(dict, TALK)
    ]
    column = "conversations" if shared else "messages"
    prompts = row(tmp_path, tools=json.dumps(TOOLS), **{column: talk})
    assert prompts[0].turns == ("the dog", "two", "and")
    asked = questions(target, prompts, Settings(max_new_tokens=3), chat=True, answers=True)
    assert [(it.prompt, it.turn) for it in asked] == [(prompts[0].id, it) for it in (1, 2, 3)]
    assert [it.tokens for it in asked] == [ids(target, text) for text in RENDERED]
    assert all(len(it.text) == 3 for it in asked)  # the target's own, none of which is read later


def test_a_result_without_a_text_is_called_by_its_role(tmp_path: Path) -> None:
    assert row(tmp_path, messages=[{"role": "tool", "content": ""}])[0].turns == ("tool",)


def test_parts_that_a_template_leaves_out_are_named(target: Any, tmp_path: Path) -> None:
    prompts = row(tmp_path, tools=TOOLS, messages=TALK)
    for part, left in (("{{ t.function.name }}", "cat"), ("{{ m.content }}", "two")):
        target.tokenizer.chat_template = TEMPLATE.replace(part, "").replace("c.function.name", "c")
        with pytest.raises(TargetError, match=f"the chat template leaves out '{left}' of a tool"):
            questions(target, prompts, Settings(), chat=True, answers=False)
    with pytest.raises(ConfigError, match="chat=False: expected true, for a conversation with to"):
        questions(target, prompts, Settings(), chat=False, answers=False)
    with pytest.raises(ConfigError, match=r"^data: prompt=.*rows\.jsonl, line 1'?: expected one"):
        without_tools(prompts)


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (
            {"messages": [*TALK, {"role": "tols", "content": "x"}]},
            r"\[6\]\.role='tols': did you me",
        ),
        ({"messages": TALK[:2], "tools": "[{"}, r"tools='\[\{': expected JSON"),
        ({"messages": [TALK[3]], "function_call": "x"}, "function_call='x': expected none"),
        ({"messages": [{"role": "tool", "content": [{"type": "image"}]}]}, "expected text"),
    ],
)
def test_a_conversation_that_does_not_fit(record: Any, line: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=line) as caught:
        row(tmp_path, **record)
    assert "\n" not in str(caught.value)
