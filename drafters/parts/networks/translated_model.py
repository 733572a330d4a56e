"""TranslatedModel: drafts with a language model that has a tokenizer of its own (2502.05202)."""

import copy
from collections.abc import Sequence
from typing import Any, final

from jaxtyping import Float
from torch import Tensor

from outrider.base.pretrained import Model
from outrider.contract.context import Tokens
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.parts.networks.cached_text import CachedText
from outrider.drafters.parts.texts.translation import OwnText, Translation, whole_characters
from outrider.drafters.parts.trees.shapes import Shape
from outrider.targets.passes.masks import context_window

OWN_TOKENS = 2
"""How many tokens of its own the model may write for each token of a draft."""


@final
class TranslatedModel:
    """A language model that reads a target's text in its own tokens.

    translation: the tokens that the two have in common.

    Raises `ConfigError` if their tokenizers can't be compared.
    """

    def __init__(self, model: Model, tokenizer: Any, target: Target) -> None:
        size = int(model.config.get_text_config().vocab_size)
        self.translation: Translation = Translation(tokenizer, size, target)
        self._own = OwnText(self.translation)
        self._cached = CachedText(model, size)
        self._window = context_window(model)

    def fresh(self) -> "TranslatedModel":
        """Returns the same model before its first text."""
        text = copy.copy(self)
        text._own, text._cached = OwnText(self.translation), self._cached.fresh()
        return text

    def draft_shared(self, text: Tokens, pen: Pen, shape: Shape) -> None:
        """Writes a draft of tokens that both vocabularies have (token-level intersection).

        The logits of all other tokens are -inf, so the pen draws from the model's distribution over
        the shared tokens, renormalised.
        """
        ids = self._own.follow(text)
        if ids is None:
            return
        pen.limit(self._reach(ids, pen.gamma))
        if not pen.open:
            return
        translation = self.translation
        first = translation.spread(self._cached.follow(Tokens(ids)))

        def next_logits(paths: Sequence[Sequence[int]]) -> Float[Tensor, "paths vocab"]:
            own_paths = [[translation.own_ids[token] for token in path] for path in paths]
            if not own_paths[0]:
                return first
            if shape.kind != "chain":
                return translation.spread(self._cached.branch(own_paths))
            return translation.spread(self._cached.extend([path[-1] for path in own_paths]))

        shape.grow(pen, next_logits)

    def draft_text(self, text: Tokens, pen: Pen) -> None:
        """Writes the target's tokens for the model's likeliest text (string-level exact match).

        The last of these tokens is left out unless the model ends its text there, since more text
        could turn it into another token.
        """
        ids = self._own.follow(text)
        room = 0 if ids is None else self._reach(ids, OWN_TOKENS * (pen.gamma + 1))
        if ids is None or not room or not pen.open:
            return
        before = self.translation.text_before(text, len(text))
        drafted: list[int] = []
        tokens: list[int] = []
        ended = False
        logits = self._cached.follow(Tokens(ids))
        while len(tokens) <= pen.gamma and len(drafted) < room:
            if drafted:
                logits = self._cached.extend(drafted[-1:])
            likeliest = int(logits[-1].argmax())
            ended = self.translation.own.bytes_of[likeliest] is None
            if ended:
                break
            drafted.append(likeliest)
            tokens = self._in_target_tokens(before, drafted)
        for token in tokens if ended else tokens[:-1]:
            if pen.open:
                pen.write(token)

    def _in_target_tokens(self, before: bytes, drafted: list[int]) -> list[int]:
        """Returns the target's ids for the drafted tokens after a text, up to a whole character."""
        end = whole_characters(before + self.translation.own.join(drafted))
        return self.translation.target.continued(before, end[len(before) :]) or []

    def _reach(self, ids: list[int], most: int) -> int:
        """Returns how many tokens the model's window leaves after a text, up to `most`."""
        return most if self._window is None else min(most, max(0, self._window + 1 - len(ids)))
