"""Target: the role that owns the model whose text is wanted."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from outrider.draft import Draft
from outrider.errors import ConfigError, require
from outrider.verifier import Verdict

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Session(ABC):
    """One text under way on a target, with the key-value cache that belongs to it."""

    @abstractmethod
    def score(self, draft: Draft) -> Float[Tensor, "nodes+1 vocab"]:
        """Returns the logits after the context (row 0) and after each node (row i + 1).

        One forward pass scores the whole draft. A `commit` follows each `score`.
        """

    @abstractmethod
    def commit(self, verdict: Verdict) -> None:
        """Keeps the accepted path and the next token, and drops the rest of the draft."""

    def features(self) -> dict[str, Tensor]:
        """Returns what the session was opened to keep of the text scored so far, by name."""
        return {}


class Target(ABC):
    """A model to speed up, with what decoding must know of it.

    vocab_size: the number of logits.
    max_length: the longest text in tokens, None where there is no bound.
    eos: the ids that end a text.
    offers: what drafters may ask for with `needs`.
    trees: whether drafts may branch.
    tokenizer: a transformers tokenizer, where the target has one.
    model: a transformers model, where the target has one.
    """

    vocab_size: int
    max_length: int | None = None
    eos: frozenset[int] = frozenset()
    offers: frozenset[str] = frozenset()
    trees: bool = True
    tokenizer: "PreTrainedTokenizerBase | None" = None
    model: Any = None

    @abstractmethod
    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        """Starts a text with the prompt `tokens`; sessions do not disturb each other.

        needs: the features to keep, out of what the target offers.
        """

    def encode(self, prompt: str | Sequence[int], *, chat: bool = False) -> list[int]:
        """Returns the ids of a prompt; ids pass through, checked.

        chat: wrap a string as a user's turn with the tokenizer's chat template, where the
            tokenizer has one.

        Raises:
            ConfigError: the prompt is empty, too long, or holds what is no id.
        """
        if isinstance(prompt, str):
            require(prompt.strip() != "", "prompt", prompt, "some text")
            if self.tokenizer is None:
                raise ConfigError(f"prompt={prompt!r}: expected ids, the target has no tokenizer")
            if chat and getattr(self.tokenizer, "chat_template", None):
                turns = [{"role": "user", "content": prompt}]
                text = str(
                    self.tokenizer.apply_chat_template(
                        turns, tokenize=False, add_generation_prompt=True
                    )
                )
                tokens = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
            else:
                tokens = list(self.tokenizer(prompt)["input_ids"])
        else:
            tokens = [int(token) for token in prompt]
        require(len(tokens) > 0, "prompt", prompt, "at least one token")
        for token in tokens:
            require(0 <= token < self.vocab_size, "prompt", token, f"ids below {self.vocab_size}")
        if self.max_length is not None and len(tokens) >= self.max_length:
            raise ConfigError(
                f"prompt of {len(tokens)} tokens: expected fewer than the context window"
                f" of {self.max_length}"
            )
        return tokens
