"""OtherTokenizer: `small_lm` with a model whose tokenizer is not the target's."""

import copy
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, final

from outrider.base.errors import ConfigError, require
from outrider.contract.context import Context
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.parts.networks.translated_model import TranslatedModel
from outrider.drafters.parts.trees.tree_forms import parse_tree
from outrider.plugins.config import make
from outrider.targets.loading import unpacked
from outrider.targets.model_settings import LOADED, OPTIONS, ModelSettings
from outrider.targets.passes.cached_model import SOURCE, refuse_other_kind
from outrider.targets.transformers import TransformersTarget

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
        self._setting = model
        self._vocabulary = vocabulary
        self._settings = settings
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
        self._model = TranslatedModel(model.model, model.tokenizer, target)
        if self._vocabulary == "shared" and not self._model.translation.shared:
            raise ConfigError(
                "drafter.vocabulary='shared': model and target have no token in common:"
                " expected text"
            )

    def open(self) -> Self:
        text = copy.copy(self)
        text._model = self._model.fresh()
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        if self._vocabulary == "shared":
            self._model.draft_shared(context.tokens, pen, self._shape)
        else:
            self._model.draft_text(context.tokens, pen)


@lru_cache(maxsize=1)
def _loaded(name: str, settings: ModelSettings) -> Target:
    """Returns a model with its tokenizer; cached, since a run may make many drafters."""
    target: Target
    if Path(name).expanduser().is_dir():
        target = TransformersTarget(name, **settings.given())
    else:
        target = make("target", name, **settings.given())
    return target
