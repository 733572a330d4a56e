"""Assistant: Gemma 4's small model, which reads the target's last state and its keys and values."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from outrider.base.bounds import checked
from outrider.base.errors import require
from outrider.contract.context import Context
from outrider.contract.devices import placed
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.parts.networks.cached_text import fit
from outrider.drafters.parts.networks.drafting_model import drafting_model
from outrider.drafters.parts.networks.logits import require_readable
from outrider.drafters.parts.trees.tree_forms import parse_tree
from outrider.targets.loading import Dtype
from outrider.targets.model_settings import ModelSettings
from outrider.targets.passes.cached_model import CACHE, HIDDEN
from outrider.targets.passes.engine import NONE
from outrider.targets.passes.placement import home


@final
class Assistant(Drafter):
    """Drafts with an assistant that was published for a Gemma 4, by transformers' own modules.

    It has no keys and values: its layers attend to those of the target's last layer of the same
    kind. A token comes from the token before it and a state, the target's for the first and its
    own for the others, always at the position of the text's newest token.

    model: a hub id or folder, such as google/gemma-4-E2B-it-assistant, or the loaded model;
        transformers 5.23.0 can't build one, later ones can.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.
    dtype: the weights' precision, such as bfloat16. Defaults to that of the checkpoint.

    Raises `ConfigError` in `bind` if it is no such model, or is one for another target.
    """

    needs: frozenset[str] = frozenset({"model", CACHE, HIDDEN})

    @checked("drafter")
    def __init__(self, model: Any, tree: Any = None, dtype: Dtype = "auto") -> None:
        self._model_setting, self._shape = model, parse_tree(tree)
        self._settings = ModelSettings("drafter", dtype, optimize=NONE)
        self.kind: str = self._shape.kind
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is target:
            return
        require_readable(target, self.needs)
        model, _ = drafting_model(self._model_setting, self._settings, target)
        own, config = model.config, target.model.config.get_text_config()
        width = getattr(own, "backbone_hidden_size", None)
        expected = f"an assistant of Gemma 4 for states of {config.hidden_size} numbers"
        require(width == config.hidden_size, "drafter.model", type(model).__name__, expected)
        size, kinds = own.get_text_config().vocab_size, getattr(config, "layer_types", None) or []
        require(size == target.vocab_size, "drafter.model", size, f"{target.vocab_size} tokens")
        kinds = kinds[: len(kinds) - (getattr(config, "num_kv_shared_layers", None) or 0)]
        self._layers: dict[str, int] = {kind: layer for layer, kind in enumerate(kinds)}
        missing = {*own.get_text_config().layer_types} - self._layers.keys()
        require(not missing, "target", type(target.model).__name__, f"layers of {missing}")
        self.models: Sequence[Any] = (model,)
        self._target = target

    @torch.no_grad()
    def propose(self, context: Context, pen: Pen) -> None:
        features, known = context.features, len(context.tokens) - 1
        if not pen.open or HIDDEN not in features:
            return
        assert self._target is not None, "a drafter that is not bound to a target was asked"
        (model,), embed = self.models, self._target.model.get_input_embeddings()
        shared = {
            kind: [
                features[f"{name}.{layer}"][:known].transpose(0, 1)[None].to(model.dtype)
                for name in ("keys", "values")
            ]
            for kind, layer in self._layers.items()
        }
        states: dict[tuple[Any, ...], Tensor] = {}

        def next_logits(paths: Sequence[Sequence[Any]]) -> Tensor:
            before = [states[tuple(it[:-1])] if it else features[HIDDEN][known - 1] for it in paths]
            tokens = placed([it[-1] if it else context.tokens[-1] for it in paths], home(model))
            rows = torch.cat([embed(tokens), torch.stack(before)], dim=-1).to(model.dtype)
            after = model(
                inputs_embeds=rows[:, None],
                position_ids=torch.full_like(tokens, known)[:, None],
                shared_kv_states={
                    kind: tuple(each.expand(len(paths), -1, -1, -1) for each in pair)
                    for kind, pair in shared.items()
                },
            )
            for path, state in zip(paths, after.last_hidden_state, strict=True):
                states[tuple(path)] = state[0]
            return fit(after.logits[:, 0], pen.vocab_size)

        self._shape.grow(pen, next_logits)
