"""SmallLM: a smaller transformers model, or the target's own first layers, drafts."""

import copy
from collections.abc import Sequence
from typing import Annotated, Any, Self, final

from jaxtyping import Float
from torch import Tensor

from outrider.base.bounds import Count, checked
from outrider.base.errors import ConfigError
from outrider.base.expectations import OneOf
from outrider.base.pretrained import Model
from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.other_tokenizer import HINT, VOCABULARIES, OtherTokenizer
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.cached_text import CachedText
from outrider.drafters.parts.networks.drafting_model import (
    BUILT_IN,
    drafting_model,
    proved,
    require_same_vocabulary,
)
from outrider.drafters.parts.networks.model_rows import ModelRows
from outrider.drafters.parts.trees.tree_forms import parse_tree
from outrider.targets.loading import Dtype
from outrider.targets.model_settings import ModelSettings
from outrider.targets.passes.cached_model import SOURCE, refuse_other_kind
from outrider.targets.passes.first_layers import first_layers
from outrider.targets.self_test import SelfTest
from outrider.targets.transformers import TransformersTarget


@final
class SmallLM(Drafter):
    """Drafts with a small language model (2211.17192, section 2).

    If the target has an encoder, the model has to have one too; it reads the source once.

    model: a hub id or folder of a model that shares the target's tokenizer, or a loaded model, as
        for a target: alone, or with its tokenizer; "smollm2" for the one that comes with the
        package, distilled from SmolLM2-135M. That is also the default if the target is
        SmolLM2-135M and `layers` is None. Otherwise the default is the target itself, cut after
        `layers` layers, without a second copy of its weights (self-speculation by early exit).
    layers: how many of the target's layers to draft with if `model` is None. Defaults to four
        fifths of them where no model comes with the package, since a model that was never trained
        to exit early predicts little before its last layers.
    dtype, device, optimize, quantize, device_map, quantization_config: of the model, as for a
        target: its passes run by the same engine. The model
        that comes with the package has the target's precision and device, and the target's layers
        have its engine. `quantize` "auto" rounds the weights of that model alone, to eight bits,
        where the target's engine has them; None leaves them as they are.
    attn_implementation, trust_remote_code: likewise.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`; each depth takes one
        pass. Defaults to a chain.
    vocabulary: "same" expects the target's tokenizer. "shared" and "text" take a model with any
        other (2502.05202): with "shared" it drafts the tokens that both have, and with "text" a
        chain of the target's tokens that spell its likeliest text. `model` is then a hub id, a
        folder, the name of a target, such as "gemma3" or "smollm2", or a loaded model with its
        tokenizer.

    It drafts while the text fits its own context window. A model that is not the target's is tested
    with a few tiny passes: its cache has to roll back, and if `tree` is set, it has to read a tree
    as its paths.

    Raises `ConfigError` in `bind` if the model does not fit the target, or fails the test, and
    `TargetError` if only one of them has an encoder.
    """

    @checked("drafter")
    def __init__(  # noqa: PLR0913  the settings of a model, and what is drafted with it
        self,
        model: Any = None,
        layers: Count | None = None,
        dtype: Dtype = "auto",
        device: str = "auto",
        *,
        optimize: str = "auto",
        quantize: str | None = "auto",
        device_map: str | dict[str, Any] | None = None,
        quantization_config: dict[str, Any] | None = None,
        attn_implementation: str | None = None,
        trust_remote_code: bool = False,
        tree: Any = None,
        vocabulary: Annotated[str, OneOf(("same", *VOCABULARIES))] = "same",
    ) -> None:
        self._settings = ModelSettings(
            "drafter",
            dtype,
            device,
            optimize,
            quantize,
            device_map,
            quantization_config,
            attn_implementation,
            trust_remote_code,
        )
        self._other: OtherTokenizer | None = None
        if vocabulary != "same":
            self._other = OtherTokenizer(model, vocabulary, self._settings, tree=tree)
        self.needs = frozenset({"model"} if model is None else ())
        self.autoregressive = True
        self._model_setting = model
        self._layers = layers
        self._tree, self._shape = tree, parse_tree(tree)
        self.kind: str = self._shape.kind
        if self._other is not None:
            self.needs: frozenset[str] = self._other.needs
            self.autoregressive: bool = self._other.autoregressive
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is target:
            return
        if self._other is not None:
            self._other.bind(target)
            self.models: Sequence[Any] = self._other.models
            self._target = target
            return
        self.chain_model: Any = self._model_for(target)
        if self._model_setting is not None:
            tested = proved(self.chain_model, "small_lm")
            if self.trees and tested.trees:
                name = type(self.chain_model).__name__
                line = f"{name} writes only chains, since {tested.trees}"
                raise ConfigError(f"drafter.tree={self._tree!r}: {line}")
        elif isinstance(target, TransformersTarget):
            tested = target.tested
        else:
            tested = SelfTest(batches="it was not tested")
        self._batches = not tested.batches
        self._text = CachedText(self.chain_model, target.vocab_size)
        self._rows = ModelRows(self.chain_model, self.reach, target.vocab_size)
        self.models = (self.chain_model,)
        self._target = target

    def _model_for(self, target: Target) -> Model:
        """Returns the model that drafts for a target; errors are those of `bind`."""
        model = self._model_setting
        if model is None and self._layers is None and weights.is_smollm2(target):
            model = BUILT_IN
        if model is None:
            self._settings.refuse(where="for the target's own layers: drafter.model is not set")
            return first_layers(target.model, self._layers)
        model, tokenizer = drafting_model(model, self._settings, target)
        refuse_other_kind(model, encoder=SOURCE in target.offers)
        require_same_vocabulary(model, tokenizer, target, hint=f"; {HINT}")
        drafting: Model = model
        return drafting

    def reach(self, length: int) -> int:
        """Returns how many tokens the model can draft after a text."""
        return self._text.reach(length)

    def open_together(self) -> Drafter | None:
        if self._other is not None or not self._batches or self._target is None:
            return None
        rows = self._rows
        return rows.for_trees(self._shape, self.open()) if self.trees else rows.fresh()

    def open(self) -> Self:
        text = copy.copy(self)
        if self._other is None:
            text._text, text._rows = self._text.fresh(), self._rows.fresh()
        else:
            text._other = self._other.open()
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        if self._other is not None:
            self._other.propose(context, pen)
            return
        pen.limit(self.reach(len(context.tokens)))
        if self._rows.static and not self.trees:
            self._rows.propose(context, pen)
        elif pen.open and not self._rows.grow([(context, pen)], self._shape):
            base = self._text.follow(context.tokens, context.source)
            self._text.grow(self._shape, pen, base)

    def scores(
        self, text: Sequence[int], extra: Sequence[int], source: Tokens | None = None
    ) -> Float[Tensor, "extra+1 vocab"]:
        """Returns the logits after `text`, and after each of `extra` tokens that continue it."""
        return self._text.follow(Tokens([*text, *extra]), source, rows=len(extra) + 1)

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        """Drafts for each pair; single tokens come from one pass where contexts share a text.

        The lab asks for one token at every position of a text.
        """
        one_by_one = self._other is not None or self.trees
        one_token = not one_by_one and all(pen.open and pen.gamma == 1 for _, pen in pairs)
        source = pairs[0][0].source if pairs else None
        if len(pairs) > 1 and one_token and all(context.source == source for context, _ in pairs):
            texts = [context.tokens for context, _ in pairs]
            longest, shortest = max(texts, key=len), min(map(len, texts))
            if self.reach(len(longest)) == 0:
                super().propose_batch(pairs)
                return
            if all(text.shared(longest) == len(text) for text in texts):
                logits = self._text.follow(longest, source, rows=len(longest) - shortest + 1)
                for context, pen in pairs:
                    pen.draw(logits[len(context.tokens) - shortest])
                return
        super().propose_batch(pairs)
