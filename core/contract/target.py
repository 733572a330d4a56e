"""Target: the model whose text is wanted."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import ConfigError, TargetError, require
from outrider.base.pretrained import Tokenizer
from outrider.contract.constraint import Constraint
from outrider.contract.context import Features, Tokens
from outrider.contract.draft import Draft, Logits, Verdict
from outrider.contract.prompt import (
    are_messages,
    check_ids,
    ids_of,
    ids_of_text,
    in_chat_template,
    rendered,
)

IN_TEMPLATE = {"add_special_tokens": False}
"""How a text is encoded that a chat template wrote, special tokens included."""


def check_finite(logits: Float[Tensor, "*rows vocab"], giver: str = "the target") -> None:
    """Raises `TargetError` if a row of logits holds NaN or infinity, or rules out every token."""
    check_flag(all(map(math.isfinite, logits.amax(-1).flatten().tolist())), giver)


def check_flag(is_finite: bool | Tensor, giver: str = "the target") -> None:
    """Raises the error of `check_finite` unless a flag is set."""
    if not is_finite:
        raise TargetError(f"{giver} gave logits with NaN, infinity or no finite entry")


Scored = tuple[Logits, Callable[[], Verdict] | None]
"""The logits of a draft, and what reads the verdict on it if the same pass has decided it."""


class Session(ABC):
    """One text in progress on a target, with its key-value cache."""

    @abstractmethod
    def score(self, draft: Draft) -> Logits:
        """Returns the logits after the context (row 0) and after each node i (row i + 1).

        One forward pass scores the whole draft. Each `score` is followed by a `commit`.
        """

    def score_and_judge(self, draft: Draft, judge: Any) -> Scored:
        """Returns what `score` does, and may decide on the draft.

        judge: a `Judge` of the draft, or None. The next `score` overwrites the verdict.
        """
        return self.score(draft), None

    def resume(self, draft: Draft, computed: Features) -> Logits:
        """Returns what `score` does, given what the first layers compute for the draft.

        This one has no use for it. Override it if the session can go on behind those layers.

        computed: as a drafter's `computed` returns it.
        """
        return self.score(draft)

    @abstractmethod
    def commit(self, verdict: Verdict) -> None:
        """Keeps the accepted path and the next token, and drops the rest of the draft."""

    def features(self) -> dict[str, Tensor]:
        """Returns the features that the session was opened with, for the text scored so far.

        From a `score` to its `commit`, the nodes of the draft have the last rows, in their order.
        """
        return {}


class Target(ABC):
    """A model to speed up, and what decoding needs to know about it.

    vocab_size: the number of logits.
    max_length: the longest text in tokens, prompt included; None if unlimited.
    eos: the ids that end a text.
    offers: the names that a drafter may list in its `needs`.
    trees: whether drafts may branch. no_trees: the reason to give if they may not.
    tokenizer: a transformers tokenizer, or None.
    model: the transformers model behind the target, or None.
    lossless: whether its distributions are those of its weights as they are, not of rounded ones.
    """

    vocab_size: int
    max_length: int | None = None
    eos: frozenset[int] = frozenset()
    offers: frozenset[str] = frozenset()
    trees: bool = True
    no_trees: str = "the target takes only chains"
    tokenizer: Tokenizer | None = None
    model: Any = None
    lossless: bool = True

    def begin(self, prompt: Sequence[int]) -> tuple[list[int], Tokens | None]:
        """Returns the first ids of a prompt's text, and the encoder's input or None.

        For a decoder-only target the text begins with the prompt. An encoder-decoder overrides
        this: its encoder reads the prompt, and the text begins with the decoder's start token.
        """
        return list(prompt), None

    def constraint(
        self, ids: Sequence[int], source: Tokens | None, limit: int | None = None
    ) -> Constraint | None:
        """Returns what the model itself asks of each of its texts, such as a repetition penalty.

        It takes part in the target's distribution, before a run's own constraint; sessions score
        without it. Defaults to None.

        ids, source: as `begin` returns them.
        limit: the most ids that the text may have, if it is known.
        """
        return None

    @abstractmethod
    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        """Starts a text with the prompt `tokens`. Sessions are independent of each other.

        needs: the features to keep, out of those that the target offers.
        """

    def computing(self) -> AbstractContextManager[None]:
        """Returns a context manager that is entered to write, score or verify a draft.

        Override it if the target changes a setting for that time, such as the number of threads.
        """
        return nullcontext()

    def fingerprint(self) -> str | None:
        """Returns a hash of all that decides the target's distributions, as a key for cached texts.

        None, the default, if there is no such hash; the target's texts are then never cached.
        """
        return None

    def encode(
        self, prompt: str | Sequence[Any], *, chat: bool = False, tools: Sequence[Any] = ()
    ) -> list[int]:
        """Returns the ids of a prompt. Ids are checked and returned as they are.

        prompt: a list of messages too, each with a role and its content, for the chat template.
        chat: wrap a string as a user's turn, if the tokenizer has a chat template.
        tools: what the template of messages is given as tools.

        Raises `ConfigError` if the prompt is empty or too long, or an id is not in the vocabulary.
        """
        if isinstance(prompt, str):
            return self.encode_turns([prompt], chat=chat)
        if are_messages(prompt):
            has_template = getattr(self.tokenizer, "chat_template", None) is not None
            require(has_template, "prompt", prompt, "text or ids, there is no chat template")
            text = rendered(self.tokenizer, prompt, tools)
            return self._checked(ids_of_text(self.tokenizer, text, **IN_TEMPLATE), prompt)
        return self._checked(ids_of(prompt), prompt)

    def encode_turns(self, turns: Sequence[str], *, chat: bool = False) -> list[int]:
        """Returns the ids of a conversation: turns of the user and answers, alternately.

        chat: use the chat template, as in `encode`; otherwise the turns become paragraphs.

        Raises `ConfigError` as `encode` does.
        """
        prompt = "\n\n".join(turns)
        require(prompt.strip() != "", "prompt", prompt, "some text")
        if self.tokenizer is None:
            hint = "" if self.model is None else "; it has one if given as (model, tokenizer)"
            line = f"prompt={prompt!r}: expected ids, the target has no tokenizer"
            raise ConfigError(line + hint)
        if not (chat and getattr(self.tokenizer, "chat_template", None)):
            return self._checked(ids_of_text(self.tokenizer, prompt), prompt)
        text = in_chat_template(self.tokenizer, turns)
        return self._checked(ids_of_text(self.tokenizer, text, **IN_TEMPLATE), prompt)

    def _checked(self, tokens: list[int], prompt: str | Sequence[Any]) -> list[int]:
        require(len(tokens) > 0, "prompt", prompt, "at least one token")
        check_ids("prompt", tokens, self.vocab_size)
        # A decoder's prompt leaves room for at least one new token; an encoder's input need not.
        spare = self.begin(tokens)[1] is not None
        if self.max_length is not None and len(tokens) >= self.max_length + spare:
            raise ConfigError(
                f"prompt of {len(tokens)} tokens: expected {'no more' if spare else 'fewer'} than"
                f" the context window of {self.max_length}"
            )
        return tokens
