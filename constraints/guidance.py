"""Keeps a text within a JSON schema, a regular expression or a grammar, by llguidance."""

import copy
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from outrider.base.bounds import checked
from outrider.base.contents import json_of
from outrider.base.errors import ConfigError, TargetError, refusing, shown
from outrider.base.expectations import Like
from outrider.contract.constraint import Constraint
from outrider.contract.context import Tokens
from outrider.contract.target import Target
from outrider.data.prompts import file_text

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer


@final
class Guidance(Constraint):
    """Allows only the tokens that lead to a text of a grammar.

    Where the grammar allows an end, the text may end with the target's end token; where it allows
    nothing else, the text ends. Where only one continuation is possible, its tokens are those that
    the tokenizer gives. The prompt is not part of the grammar. `regex`, `json_schema` and `grammar`
    below return such constraints.

    rules: the grammar in llguidance's format.
    steer: whether drafts follow the grammar too. Defaults to true; it changes no distribution of
        the text.

    Raises `ConfigError` if the grammar is not valid, or llguidance is not installed.
    """

    def __init__(self, rules: str, *, steer: bool = True) -> None:
        if fault := matcher_class().validate_grammar(rules):
            raise ConfigError(f"constraint: {' '.join(fault.split())}")
        self._rules, self._steer = rules, steer
        self._cached: tuple[Target, frozenset[int], LLTokenizer] | None = None

    def begin(self, target: Target, ids: Sequence[int]) -> Constraint:
        """Returns the grammar of one text.

        Raises `ConfigError` if the target has no fast tokenizer.
        """
        cached = self._cached
        if cached is None or cached[0] is not target or cached[1] != target.eos:
            cached = self._cached = (target, target.eos, _tokenizer(target))  # takes a second
        matcher = matcher_class()(cached[2], self._rules)
        return GuidedText(matcher, len(ids), steer=self._steer)


@final
class GuidedText(Constraint):
    """The grammar of one text.

    matcher: a matcher at the beginning of the grammar.
    start: how many ids come before the grammar's text.
    """

    def __init__(self, matcher: "LLMatcher", start: int, *, steer: bool) -> None:
        self._matcher, self._start, self._steer = matcher, start, steer
        self._read: list[int] = []  # what the matcher has read

    def steering(self) -> Constraint | None:
        return self if self._steer else None

    def logits(self, ids: Sequence[int], logits: Float[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
        # A drafter may have written a token that the grammar forbids, and continued from there.
        if not self._follows(ids):
            return logits
        allowed = self._allowed(len(logits))
        if not allowed.any() and self._matcher.is_accepting():
            return logits  # the text has ended, and the target has no token that says so
        return logits.masked_fill(~allowed.to(logits.device), float("-inf"))

    def forced(self, ids: Sequence[int]) -> list[int]:
        return self._matcher.compute_ff_tokens() if self._follows(ids) else []

    def ends(self, ids: Sequence[int]) -> bool:
        """Returns whether the grammar allows nothing after `ids`.

        Raises `TargetError` if the text has left the grammar, as a lossy acceptance rule may do.
        """
        if not self._follows(ids):
            raise TargetError(f"constraint: the grammar does not allow token {ids[-1]} there")
        return self._matcher.is_stopped()

    def _follows(self, ids: Sequence[int]) -> bool:
        """Moves the matcher to the end of `ids`, and returns whether they follow the grammar."""
        text = list(ids[self._start :])
        shared = Tokens(self._read).shared(Tokens(text))
        if len(self._read) > shared:
            self._matcher.rollback(len(self._read) - shared)
        count = self._matcher.try_consume_tokens(text[shared:])
        self._read = text[: shared + count]
        return len(self._read) == len(text)

    def _allowed(self, vocab: int) -> Bool[Tensor, "vocab"]:
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        if self._matcher.is_error():
            raise TargetError(f"constraint: {' '.join(self._matcher.get_error().split())}")
        flags = np.unpackbits(bits, count=vocab, bitorder="little")
        return torch.from_numpy(flags).bool()


@checked("constraint")
def regex(pattern: Annotated[str, Like(".+", "a pattern")], steer: bool = True) -> Guidance:
    """Returns the constraint that the whole text matches a regular expression.

    pattern: in the syntax of Rust's regex crate, without anchors and look-around.
    steer: whether drafts keep to it too.
    """
    return Guidance(matcher_class().grammar_from_regex(pattern), steer=steer)


@checked("constraint")
def json_schema(
    schema: str | Mapping[str, Any], whitespace: bool = True, steer: bool = True
) -> Guidance:
    """Returns the constraint that the text is JSON of a schema (https://json-schema.org).

    schema: a mapping, its JSON, or @FILE for a file that holds it.
    whitespace: whether white space is allowed between the parts of the JSON. Without it, more
        tokens are forced.
    steer: whether drafts keep to it too.

    Raises `ConfigError` if the schema is no JSON, or not supported by llguidance.
    """
    if isinstance(schema, str):
        text = file_text("constraint.schema", schema[1:]) if schema[:1] == "@" else schema
        try:
            schema = json_of(text)
        except json.JSONDecodeError as error:
            reason = f"{error.msg} at character {error.pos}"
            raise ConfigError(f"constraint.schema={schema!r:.60}: no JSON ({reason})") from error
    options: Any = {"whitespace_flexible": whitespace}
    expected = f"constraint.schema={shown(schema):.60}: expected an object of JSON"
    with refusing(expected, TypeError, ValueError):
        text = json.dumps(schema)
        rules = matcher_class().grammar_from_json_schema(text, overrides=options)
    return Guidance(rules, steer=steer)


@checked("constraint")
def grammar(text: str, steer: bool = True) -> Guidance:
    """Returns the constraint that the text is in the language of a grammar.

    text: the grammar in llguidance's variant of Lark, or @FILE for a file that holds it.
    steer: whether drafts keep to it too.
    """
    text = file_text("constraint.text", text[1:]) if text[:1] == "@" else text
    return Guidance(matcher_class().grammar_from_lark(text), steer=steer)


def matcher_class() -> "type[LLMatcher]":
    from llguidance import LLMatcher

    return LLMatcher


def _tokenizer(target: Target) -> "LLTokenizer":
    from llguidance.hf import from_tokenizer
    from transformers import PreTrainedTokenizerFast

    tokenizer = target.tokenizer
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        name = type(target if tokenizer is None else tokenizer).__name__
        raise ConfigError(f"constraint: expected a target with a fast tokenizer, got {name}")
    if not target.eos and tokenizer.eos_token is None:  # token 0 would be taken for it
        tokenizer = copy.deepcopy(tokenizer)
        tokenizer.add_special_tokens({"eos_token": "<|end of the grammar|>"})
    size = max(target.vocab_size, len(tokenizer))
    return from_tokenizer(tokenizer, n_vocab=size, eos_token=sorted(target.eos) or None)
