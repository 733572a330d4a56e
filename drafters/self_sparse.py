"""SelfSparse: the target itself drafts, on a few of the keys and values that it has already."""

from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafter_parts.trees import Chain
from outrider.errors import ConfigError, is_int, require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.runtime import flat
from outrider.runtime.cache import growing
from outrider.runtime.first_layers import first_layers
from outrider.runtime.step import run_pass

POOL = 7
"""Neighbouring places that share their weight, so that what is picked are phrases."""


@final
class SelfSparse(Drafter):
    """Drafts with the target on a short cache (MagicDec, 2408.11049): its text stays long.

    What the target has computed of the text is read, not computed again. The cache holds the
    first tokens and the last ones (StreamingLLM, 2309.17453), and of those between them what
    recent tokens attend to most, head by head (SnapKV, 2404.14469).

    sink: how many of the first tokens. window: of the last ones.
    picked: of those between; 0 for none, which needs a target of Llama's kind.
    observed: recent tokens whose attention decides. It is taken anew every `window` tokens.
    layers: how many of the target's layers draft; all of them unless told.

    Raises `ConfigError` in `bind` where the target has no such layers.
    """

    needs = frozenset({"model", "cache"})

    def __init__(
        self,
        sink: int = 4,
        window: int = 64,
        picked: int = 0,
        observed: int = 16,
        layers: int | None = None,
    ) -> None:
        for name, value, least in (
            ("sink", sink, 0),
            ("window", window, 1),
            ("picked", picked, 0),
            ("observed", observed, 1),
        ):
            good = is_int(value) and value >= least
            require(good, f"drafter.{name}", value, f"a whole number of at least {least}")
        self._sink, self._window, self._picked = sink, window, picked
        self._observed, self._layers = observed, layers
        self._target: Target | None = None
        self._weighed = Tokens([])
        self._weights: list[Float[Tensor, "heads tokens"]] = []

    def bind(self, target: Target) -> None:
        if self._target is target:
            return
        model = target.model
        self._model = model if self._layers is None else first_layers(model, self._layers)
        self._depth = int(self._model.config.get_text_config().num_hidden_layers)
        if self._picked and not flat.knows(model):
            raise ConfigError(
                f"drafter.picked={self._picked}: expected 0, what {type(model).__name__} attends to"
                f" can't be seen (models of {', '.join(flat.KINDS)} show it)"
            )
        self._target, self._weighed = target, Tokens([])

    def propose(self, context: Context, pen: Pen) -> None:
        if not pen.open or "keys.0" not in context.features:
            return
        known = len(context.tokens) - 1
        cache = self._cache(context, known)
        device = self._model.device

        def probs(paths: Sequence[Sequence[int]]) -> Tensor:
            token = paths[0][-1] if paths[0] else context.tokens[-1]
            seen = torch.zeros(
                (1, 1, 1, int(cache.get_seq_length()) + 1), dtype=self._model.dtype, device=device
            )
            return run_pass(
                self._model,
                torch.tensor([[token]], device=device),
                cache,
                rows=1,
                mask=seen,
                positions=torch.tensor([[known + len(paths[0])]], device=device),
            ).logits[0]

        Chain().grow(pen, probs)

    def _cache(self, context: Context, known: int) -> Any:
        """Returns a cache of the chosen ones among the first `known` tokens."""
        cache = growing()
        picks = self._picks(context, known)
        for place in range(self._depth):
            chosen = picks(place)
            rows = (context.features[f"{name}.{place}"][:known] for name in ("keys", "values"))
            keys, values = (_taken(each, chosen)[None] for each in rows)
            cache.update(keys, values, place)
        return cache

    def _picks(self, context: Context, known: int) -> Callable[[int], Int[Tensor, "heads kept"]]:
        """Returns, for a layer, the places that each head keeps."""
        heads = context.features["keys.0"].shape[1]
        device = self._model.device
        first, last = min(self._sink, known), max(self._sink, known - self._window)
        ends = [*range(first), *range(last, known)]
        fixed = torch.tensor(ends, dtype=torch.long, device=device).expand(heads, -1)
        between = last - first
        count = min(self._picked, between)
        if count == 0 or between <= 0:
            return lambda place: fixed
        # Weighed where the window begins anew, so that a draft depends on the text alone.
        weights = self._weigh(context, known - known % self._window)

        def picks(place: int) -> Tensor:
            weight = weights[place][:, first:last]
            room = torch.zeros(heads, between, device=device)
            room[:, : weight.shape[1]] = weight
            best = room.topk(count).indices.sort().values + first
            return torch.cat([fixed[:, :first], best, fixed[:, first:]], dim=1)

        return picks

    def _weigh(self, context: Context, length: int) -> list[Float[Tensor, "heads tokens"]]:
        """Returns how much the last of `length` tokens attend to each before them, by layer."""
        text = Tokens(context.tokens[:length])
        if self._weighed != text or not self._weights:
            start = max(1, length - self._observed)
            cache, weights = growing(), list[Tensor]()
            for place in range(self._depth):
                rows = (context.features[f"{name}.{place}"][:start] for name in ("keys", "values"))
                keys, values = (each.transpose(0, 1)[None] for each in rows)
                cache.update(keys, values, place)

            def watch(queries: Tensor, keys: Tensor, scale: float) -> None:
                weights.append(_attention(queries[0], keys[0, :, :start], scale))

            ids = torch.tensor([context.tokens[start:length]], device=self._model.device)
            with torch.no_grad():
                flat.step(self._model, ids, cache, 1, watch=watch)
            self._weighed, self._weights = text, weights
        return self._weights


def _taken(
    rows: Float[Tensor, "tokens heads dim"], chosen: Int[Tensor, "heads kept"]
) -> Float[Tensor, "heads kept dim"]:
    index = chosen[:, :, None].expand(-1, -1, rows.shape[-1])
    return rows.transpose(0, 1).gather(1, index)


def _attention(
    queries: Float[Tensor, "tokens all dim"], keys: Float[Tensor, "heads places dim"], scale: float
) -> Float[Tensor, "heads places"]:
    """Returns the attention that each key gets from its heads' queries, spread to neighbours."""
    heads = keys.shape[0]
    grouped = queries.transpose(0, 1).reshape(heads, -1, queries.shape[-1])
    weight = (grouped @ keys.transpose(1, 2) * scale).softmax(-1).sum(1)
    return torch.nn.functional.avg_pool1d(weight[None], POOL, stride=1, padding=POOL // 2)[0]


@hookimpl
def register_drafters(register: Register) -> None:
    register("self_sparse", SelfSparse)
