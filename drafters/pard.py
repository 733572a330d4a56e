"""Pard: a small language model that drafts all tokens in one pass, with mask tokens."""

import copy
from collections.abc import Sequence
from typing import Any, Self, final

from outrider.base.errors import is_int, require
from outrider.base.pretrained import Model
from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.parts.networks import student, weights
from outrider.drafters.parts.networks.cached_text import CachedText
from outrider.drafters.parts.networks.drafting_model import (
    drafting_model,
    proved,
    require_same_vocabulary,
)
from outrider.drafters.parts.networks.model_rows import ModelRows
from outrider.drafters.parts.trees.tree_forms import parse_tree
from outrider.targets.loading import Dtype
from outrider.targets.model_settings import ModelSettings
from outrider.targets.passes.cached_model import refuse_encoder, refuse_other_kind
from outrider.targets.passes.first_layers import first_layers, replace_modules


@final
class Pard(Drafter):
    """Drafts in one pass of a small model trained for it (PARD, 2504.18583).

    The model reads the text followed by gamma - 1 mask tokens, and predicts a token after the text
    and after each mask. So a draft takes one pass, however long it is. No token depends on those
    drawn before it in the draft.

    model: a folder that `outrider train drafter=pard` has written, or the hub id or folder of a
        model with a `pard_token` in its config, such as AMD's; or such a model, loaded;
        "untrained" for the target's first layers with a random mask token.
    dtype, device, optimize, quantize, device_map, quantization_config: of the model, as for a
        target: its passes run by the same engine.
    attn_implementation, trust_remote_code: likewise.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.

    Raises `ConfigError` in `bind` if the model does not fit the target or has no mask token, or if
    the target has an encoder.
    """

    needs: frozenset[str] = frozenset({"model"})

    def __init__(  # noqa: PLR0913  the settings of a model, and the shape of its drafts
        self,
        model: Any,
        dtype: Dtype = "auto",
        device: str = "auto",
        *,
        optimize: str = "auto",
        quantize: str | None = None,
        device_map: str | dict[str, Any] | None = None,
        quantization_config: dict[str, Any] | None = None,
        attn_implementation: str | None = None,
        trust_remote_code: bool = False,
        tree: Any = None,
    ) -> None:
        self._setting = model
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
        self._shape = parse_tree(tree)
        self.kind: str = self._shape.kind
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is target:
            return
        model = self._model_for(target)
        mask: Any = getattr(model.config, student.MASK_ID, None)
        count = model.get_input_embeddings().weight.shape[0]
        is_valid = is_int(mask) and 0 <= mask < count
        where = f"the {student.MASK_ID} of drafter.model"
        require(is_valid, where, mask, f"an id below {count}, in its config.json")
        proved(model, "pard")
        self._mask = int(mask)
        self.models: Sequence[Any] = (model,)
        self._text = CachedText(model, target.vocab_size)
        self._rows = ModelRows(model, self._text.reach, target.vocab_size, self._mask)
        self._target = target

    def _model_for(self, target: Target) -> Any:
        refuse_encoder(target, " for drafter pard")
        if self._setting == weights.UNTRAINED:
            self._settings.refuse(where="for the target's own layers")
            return _untrained(target)
        model, tokenizer = drafting_model(self._setting, self._settings, target)
        refuse_other_kind(model, encoder=False)
        require_same_vocabulary(model, tokenizer, target, hint="")
        return model

    def open(self) -> Self:
        text = copy.copy(self)
        text._text, text._rows = self._text.fresh(), self._rows.fresh()
        return text

    def open_together(self) -> Drafter | None:
        if self.trees:
            return self._rows.for_trees(self._shape, self.open())
        return self._rows.fresh() if self._rows.static else None

    def propose(self, context: Context, pen: Pen) -> None:
        pen.limit(self._text.reach(len(context.tokens)))
        if self._rows.static and not self.trees:
            self._rows.propose(context, pen)
        elif pen.open and not self._rows.grow([(context, pen)], self._shape):
            masked = Tokens([*context.tokens, *[self._mask] * (pen.gamma - 1)])
            self._shape.grow_at_once(pen, self._text.follow(masked, rows=pen.gamma))


def _untrained(target: Target) -> Model:
    """Returns the target's first layers with a mask token: the mean of its embeddings."""
    short = first_layers(target.model, None)
    table: Any = short.get_input_embeddings()
    masked = student.with_mask(table, table.weight.detach().mean(0))
    model: Model = replace_modules(short, lambda part: masked if part is table else None)
    model.config.update({student.MASK_ID: table.weight.shape[0]})
    return model
