"""Conversations as texts to learn from: each answer, after all that was said before it."""

from collections.abc import Mapping, Sequence
from typing import Any

from outrider.base.errors import ConfigError, message_of, nearest
from outrider.contract.context import Tokens
from outrider.contract.target import Target
from outrider.data.records import SPEAKING, SYSTEM, USER
from outrider.extras.training.generated_texts import Text

ROLES = dict.fromkeys(USER, "user") | dict.fromkeys(SYSTEM, "system")
ROLES |= dict.fromkeys(("assistant", "gpt", "chatgpt", "bing", "bard"), "assistant")
ROLES |= dict.fromkeys(("tool", "function", "observation"), "tool")
"""The role that a chat template knows, by the names of OpenAI and ShareGPT."""

Turns = list[dict[str, str]]


def answered(messages: Any, where: str, target: Target) -> list[Text]:
    """Returns a text for each answer in a conversation, as speculators 0.9 makes rows of them.

    The answer begins where the chat template's text of the conversation departs from that of what
    was said before it, with the template's prompt for an answer at its end. What opens a
    conversation is no answer.

    Raises:
        ConfigError: a message is in neither form, or the template can't be used, or changes what
            came before an answer.
    """
    turns = _turns(messages, where)
    texts = []
    for number, turn in enumerate(turns):
        if turn["role"] != "assistant" or number == 0:
            continue
        before = _rendered(target, turns[:number], where, prompt=True)
        ids = _rendered(target, turns[: number + 1], where, prompt=False)
        start = Tokens(before).shared(Tokens(ids))
        if start < len(before):  # such as an empty thought, where the answer has one of its own
            history = _rendered(target, turns[:number], where, prompt=False)
            if start < len(history) or ids[: len(history)] != history:
                raise ConfigError(
                    f"{where}[{number}]: the chat template changes what came before it: expected"
                    " input_ids and loss_mask for such a template"
                )
        texts.append(Text(ids, start, start))
    return texts


def _turns(messages: Any, where: str) -> Turns:
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise ConfigError(f"{where}={messages!r:.60}: expected a list of messages")
    return [_turn(message, f"{where}[{number}]") for number, message in enumerate(messages)]


def _turn(message: Any, where: str) -> dict[str, str]:
    keys = message.keys() if isinstance(message, Mapping) else ()
    speaker, content = next((pair for pair in SPEAKING if pair[0] in keys), (None, ""))
    if speaker is None:
        raise ConfigError(f"{where}={message!r:.60}: expected role and content, or from and value")
    role, text = str(message[speaker]), message.get(content)
    if role not in ROLES:
        raise ConfigError(f"{where}.{speaker}={role!r}: {nearest(role, ROLES)}")
    if not isinstance(text, str):
        raise ConfigError(f"{where}.{content}={text!r:.60}: expected text")
    return {"role": ROLES[role], "content": text}


def _rendered(target: Target, turns: Turns, where: str, *, prompt: bool) -> list[int]:
    """Returns the ids of a conversation. prompt: whether to end with what asks for an answer."""
    tokenizer = target.tokenizer
    if tokenizer is None or not tokenizer.chat_template:
        expected = "a target with a chat template, or rows with input_ids and loss_mask"
        raise ConfigError(f"{where}: expected {expected}")
    try:
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=prompt)
    except Exception as error:  # templates raise errors of any kind
        line = message_of(error)
        raise ConfigError(f"{where}: the chat template refuses it ({line})") from error
    return list(tokenizer(str(text), add_special_tokens=False)["input_ids"])
