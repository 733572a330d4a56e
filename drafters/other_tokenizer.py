"""OtherTokenizer: `small_lm` with a model whose tokenizer is not the target's."""

import copy
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, final

from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import ConfigError, require
from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.parts.networks.cached_text import CachedText
from outrider.drafters.parts.texts.translation import OwnText, Translation, whole_characters
from outrider.drafters.parts.trees.tree_forms import parse_tree
from outrider.plugins.parts import make
from outrider.targets.loading import unpacked
from outrider.targets.model_settings import LOADED, OPTIONS, ModelSettings
from outrider.targets.passes.cached_model import SOURCE, refuse_other_kind
from outrider.targets.transformers import TransformersTarget

OWN_TOKENS = 2
"""How many tokens of its own the model may write for each token of a draft."""


VOCABULARIES = ("shared", "text")
HINT = f"drafter.vocabulary={' or '.join(VOCABULARIES)} takes a model with another tokenizer"


@final
class OtherTokenizer(Drafter):
    """Drafts with a language model that has a tokenizer of its own (2502.05202).

    model: a hub id, a folder, the name of a target, a target, or a loaded model beside its
        tokenizer, of a transformers model with its tokenizer.
    vocabulary: "shared" draws from the model's distribution over the tokens that both have
        (token-level intersection). "text" writes the target's tokens for the model's likeliest text
        (string-level exact match).
    settings: of the model, as for a target.
    tree: as for `small_lm`; "text" only writes chains.

    Raises `ConfigError` in `bind` if the two have no token in common, their tokenizers can't be
    compared, or the model can't write trees.
    """

    needs: frozenset[str] = frozenset({"tokenizer"})

    def __init__(
        self, model: Any, vocabulary: str, settings: ModelSettings, *, tree: Any = None
    ) -> None:
        is_valid = model is not None
        require(is_valid, "drafter.vocabulary", vocabulary, "same, unless drafter.model is set")
        is_valid = vocabulary == "shared" or tree is None
        require(is_valid, "drafter.tree", tree, "none, since drafter.vocabulary=text writes chains")
        self.autoregressive: bool = vocabulary == "shared"
        self._setting, self._vocabulary, self._settings = model, vocabulary, settings
        self._tree, self._shape = tree, parse_tree(tree)
        self.kind: str = self._shape.kind

    def bind(self, target: Target) -> None:
        model = self._setting
        name = model if isinstance(model, str) else type(model).__name__
        if isinstance(model, str):
            model = _loaded(model, self._settings)
        elif isinstance(model, Target):
            self._settings.refuse(where="for a target that is made already")
        else:
            self._settings.refuse(*OPTIONS, where=LOADED)
            loaded = unpacked(model, field="drafter.model")
            model = TransformersTarget(*loaded, **self._settings.given())
        is_valid = isinstance(model, Target) and None not in (model.model, model.tokenizer)
        require(is_valid, "drafter.model", name, "a hub id, a folder or a target with a tokenizer")
        expected = "same, since the target has an encoder"
        require(SOURCE not in target.offers, "drafter.vocabulary", self._vocabulary, expected)
        refuse_other_kind(model.model, encoder=False)
        if self.trees and not model.trees:
            raise ConfigError(f"drafter.tree={self._tree!r}: {model.no_trees}")
        self.models: Sequence[Any] = (model.model,)
        size = int(model.model.config.get_text_config().vocab_size)
        self._translation = Translation(model.tokenizer, size, target)
        self._own, self._cached = OwnText(self._translation), CachedText(model.model, size)
        if self._vocabulary == "shared" and not self._translation.shared:
            raise ConfigError(
                "drafter.vocabulary='shared': model and target have no token in common:"
                " expected text"
            )

    def open(self) -> Self:
        text = copy.copy(self)
        text._own, text._cached = OwnText(self._translation), self._cached.fresh()
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        ids = self._own.follow(context.tokens)
        if ids is None or not self._cached.reach(len(ids)) or not pen.open:
            return
        if self._vocabulary == "shared":
            self._draft_shared(ids, pen)
        else:
            self._draft_text(context.tokens, ids, pen)

    def _draft_shared(self, ids: list[int], pen: Pen) -> None:
        """Writes a draft of tokens that both vocabularies have (token-level intersection).

        The logits of all other tokens are -inf, so the pen draws from the model's distribution over
        the shared tokens, renormalised.
        """
        cached, own_ids = self._cached, self._translation.own_ids
        pen.limit(cached.reach(len(ids)))
        first = cached.follow(Tokens(ids))

        def next_logits(paths: Sequence[Sequence[Any]]) -> Float[Tensor, "paths vocab"]:
            own_paths = [[own_ids[int(token)] for token in path] for path in paths]
            logits = first
            if own_paths[0]:
                is_chain = self._shape.kind == "chain"
                logits = cached.extend(own_paths[0][-1:]) if is_chain else cached.branch(own_paths)
            return self._translation.spread(logits)

        self._shape.grow(pen, next_logits)

    def _draft_text(self, text: Tokens, ids: list[int], pen: Pen) -> None:
        """Writes the target's tokens for the model's likeliest text (string-level exact match).

        The last of these tokens is left out unless the model ends its text there, since more text
        could turn it into another token.
        """
        room = min(self._cached.reach(len(ids)), OWN_TOKENS * (pen.gamma + 1))
        own, before = self._translation.own, self._translation.text_before(text, len(text))
        drafted, tokens, ended = list[int](), list[int](), False
        logits = self._cached.follow(Tokens(ids))
        while len(tokens) <= pen.gamma and len(drafted) < room:
            if drafted:
                logits = self._cached.extend(drafted[-1:])
            likeliest = int(logits[-1].argmax())
            if ended := own.bytes_of[likeliest] is None:
                break
            drafted.append(likeliest)
            end = whole_characters(before + own.join(drafted))[len(before) :]
            tokens = self._translation.target.continued(before, end) or []
        for token in tokens if ended else tokens[:-1]:
            if pen.open:
                pen.write(token)


@lru_cache(maxsize=1)
def _loaded(name: str, settings: ModelSettings) -> Target:
    """Returns a model with its tokenizer; cached, since a run may make many drafters."""
    target: Target
    if Path(name).expanduser().is_dir():
        target = TransformersTarget(name, **settings.given())
    else:
        target = make("target", name, **settings.given())
    return target
