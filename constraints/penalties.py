"""Makes tokens likelier or less likely, depending on the text before them."""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.bounds import checked
from outrider.base.errors import ConfigError, is_int, is_number, require
from outrider.base.expectations import Above, AtLeast, Like
from outrider.contract.constraint import Constraint
from outrider.contract.prompt import check_ids
from outrider.contract.target import Target

Word = Annotated[str, Like(r".*\S.*", "text")] | Annotated[Sequence[int], AtLeast(1)]
"""A word that may not be written: a string, or the ids of its tokens."""


@final
class Penalties(Constraint):
    """Repetition, presence and frequency penalties, a bias on tokens, and words to leave out.

    They change the target's logits before temperature, top-k, top-p and min-p. As in vLLM, they
    apply in the reverse order of the arguments below.

    >>> outrider.generate("smollm2", prompt, constraint=outrider.Penalties(repetition_penalty=1.2))

    frequency_penalty: subtracted from a token's logit once for each time that it was written, and
    presence_penalty: subtracted if it was written at all, as in OpenAI's API and vLLM. The prompt
        does not count. Both default to 0, which changes nothing.
    repetition_penalty: divides the logit of a token that was written if it is above 0, multiplies
        it if it is below, as in transformers and vLLM (Keskar et al. 1909.05858). The prompt
        counts. Defaults to 1, which changes nothing.
    logit_bias: a mapping of ids to numbers, which are added to the tokens' logits. Defaults to
        none.
    bad_words: words that are never written. A string stands for its tokens at the beginning of a
        line and after a space; the same characters in other tokens are not found. A word may also
        be a list of ids, as in `bad_words_ids` of transformers. A word may begin in the prompt.
        Defaults to none.

    Raises `ConfigError` for a value outside its range.
    """

    @checked("penalties")
    def __init__(
        self,
        *,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        repetition_penalty: Annotated[float, Above(0)] = 1.0,
        logit_bias: Mapping[Any, float] | None = None,
        bad_words: Sequence[Word] = (),
    ) -> None:
        self._frequency, self._presence = float(frequency_penalty), float(presence_penalty)
        self._repetition = float(repetition_penalty)
        self._bias: dict[int, float] = {}
        for key, value in (logit_bias or {}).items():  # in JSON, ids are strings of digits
            is_id = is_int(key) or (isinstance(key, str) and key.isdecimal())
            require(is_id, "penalties.logit_bias", key, "the id of a token")
            is_finite = is_number(value) and math.isfinite(value)
            require(is_finite, f"penalties.logit_bias[{key}]", value, "a number")
            self._bias[int(key)] = float(value)
        self._words = list(bad_words)
        self._banned: list[list[int]] = []
        self._start = 0

    @property
    def change_nothing(self) -> bool:
        """Returns whether every setting has its default."""
        is_neutral = self._repetition == 1 and self._presence == self._frequency == 0
        return is_neutral and not self._bias and not self._words

    def begin(self, target: Target, ids: Sequence[int]) -> Constraint:
        """Returns the penalties of a text.

        Raises `ConfigError` if an id is not in the vocabulary, or a word is a string and the target
        has no tokenizer.
        """
        text = copy.copy(self)
        text._start = len(ids)
        text._banned = [tokens for word in self._words for tokens in _tokens(word, target)]
        banned = [token for word in text._banned for token in word]
        for name, tokens in (("logit_bias", self._bias), ("bad_words", banned)):
            check_ids(f"penalties.{name}", tokens, target.vocab_size)
        return text

    def steering(self) -> Constraint:
        return self

    def logits(self, ids: Sequence[int], logits: Float[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
        changed = logits.clone() if logits.dtype == torch.float64 else logits.float()
        for word in self._banned:
            *first, last = word
            if not first or list(ids[-len(first) :]) == first:
                changed = changed.index_fill(0, _ids([last], changed), float("-inf"))
        if self._bias:
            amounts = changed.new_tensor(list(self._bias.values()))
            changed = changed.index_add(0, _ids(self._bias, changed), amounts)
        if self._repetition != 1:
            written = _ids(set(ids), changed)
            values = changed[written]
            scaled = torch.where(values < 0, values * self._repetition, values / self._repetition)
            changed = changed.index_copy(0, written, scaled)
        if self._presence or self._frequency:
            counts = _ids(ids[self._start :], changed).bincount(minlength=len(changed)).to(changed)
            changed = changed - self._frequency * counts - self._presence * counts.clamp(max=1)
        return changed


def _ids(ids: Any, like: Tensor) -> Tensor:
    return torch.tensor(list(ids), dtype=torch.long, device=like.device)


def _tokens(word: Word, target: Target) -> list[list[int]]:
    """Returns the ids of a word, at the beginning of a line and after a space."""
    if not isinstance(word, str):
        return [list(word)]
    tokenizer = target.tokenizer
    if tokenizer is None:
        reason = "expected lists of ids, the target has no tokenizer"
        raise ConfigError(f"penalties.bad_words={word!r}: {reason}")
    forms = (word.lstrip(), f" {word.lstrip()}")
    encoded = [tokenizer(form, add_special_tokens=False)["input_ids"] for form in forms]
    return [list(ids) for ids in encoded if ids]
