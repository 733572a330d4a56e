"""SelfSparse: the target itself drafts, on a few of the keys and values that it already has."""

import copy
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Self, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.base.expectations import AtLeast
from outrider.base.bounds import Count, checked
from outrider.base.errors import ConfigError
from outrider.base.pretrained import Model
from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.parts.networks.shared_kv import require_readable_cache
from outrider.targets.passes.engine import run_pass
from outrider.targets.passes.first_layers import first_layers
from outrider.targets.passes.pass_input import cache_argument
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import PassInput
from outrider.targets.passes.placement import home

POOL = 7
"""Neighbouring tokens that share their weight, so that phrases are picked, not single tokens."""

TINY = 1e-30
"""The least attention to divide by: a window may hide all known tokens from a query."""


@final
class SelfSparse(Drafter):
    """Drafts with the target on a short cache, however long its text is (MagicDec, 2408.11049).

    What the target has computed of the text is read, not computed again. The cache holds the
    first tokens and the last ones (StreamingLLM, 2309.17453), and of those between them what
    recent tokens attend to most, head by head (SnapKV, 2404.14469).

    sink: how many of the first tokens to keep.
    window: how many of the last tokens to keep.
    picked: how many of those between to keep. Defaults to 0; more needs a target
        that can return its attention weights.
    observed: how many recent tokens decide what is picked, anew every `window` tokens.
    layers: how many of the target's layers draft. Defaults to all of them.

    Raises `ConfigError` in `bind` if the target has no such layers.
    """

    needs: frozenset[str] = frozenset({"model", "cache"})

    @checked("drafter")
    def __init__(
        self,
        sink: Annotated[int, AtLeast(0)] = 4,
        window: Count = 64,
        picked: Annotated[int, AtLeast(0)] = 0,
        observed: Count = 16,
        layers: Count | None = None,
    ) -> None:
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
        self.models: Sequence[Any] = (self._model,)
        self._depth = int(self._model.config.get_text_config().num_hidden_layers)
        if self._picked and not shows_attention(model):
            raise ConfigError(
                f"drafter.picked={self._picked}: expected 0, what {type(model).__name__} attends to"
                " can't be seen"
            )
        self._weighed = Tokens([])
        require_readable_cache(self._model, target, "self_sparse", self._on_all)
        self._target = target

    def _on_all(self, context: Context) -> Float[Tensor, "1 vocab"]:
        """Returns the logits after a text if all its tokens are kept."""
        known, heads = len(context.tokens) - 1, context.features["keys.0"].shape[1]
        everything = torch.arange(known, device=home(self._model)).expand(heads, -1)
        cache = self._cache(context, known, lambda _: everything)
        return self._logits(cache, context.tokens[-1], known)

    def open(self) -> Self:
        text = copy.copy(self)
        text._weighed, text._weights = Tokens([]), []
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        if not pen.open or "keys.0" not in context.features:
            return
        known = len(context.tokens) - 1
        cache = self._cache(context, known, self._picks(context, known))

        token, position = context.tokens[-1], known
        while pen.open:
            token = pen.draw(self._logits(cache, token, position)[0])
            position += 1

    def _logits(self, cache: GrowingCache, token: int, position: int) -> Float[Tensor, "1 vocab"]:
        """Appends a token to a cache, and returns the logits after it."""
        device = home(self._model)
        # The token sees the whole cache, though its position is far beyond the cache's end.
        length = int(cache.get_seq_length()) + 1
        mask = torch.zeros((1, 1, 1, length), dtype=self._model.dtype, device=device)
        inputs = PassInput(
            torch.tensor([[token]], device=device),
            1,
            mask,
            torch.tensor([[position]], device=device),
        )
        return run_pass(self._model, cache, inputs).logits[0]

    def _cache(
        self, context: Context, known: int, picks: Callable[[int], Int[Tensor, "heads kept"]]
    ) -> GrowingCache:
        """Returns a cache of what is kept of the first `known` tokens.

        picks: maps a layer to the tokens that each of its heads keeps.
        """
        cache = GrowingCache()
        for layer in range(self._depth):
            indices = picks(layer)
            keys, values = (
                _taken(context.features[f"{name}.{layer}"][:known], indices)[None]
                for name in ("keys", "values")
            )
            cache.update(keys, values, layer)
        return cache

    def _picks(self, context: Context, known: int) -> Callable[[int], Int[Tensor, "heads kept"]]:
        """Returns a function from a layer to the tokens that each of its heads keeps."""
        heads = context.features["keys.0"].shape[1]
        device = home(self._model)
        first = min(self._sink, known)
        last = max(first, known - self._window)
        ends = [*range(first), *range(last, known)]
        fixed = torch.tensor(ends, dtype=torch.long, device=device).expand(heads, -1)
        between = last - first
        count = min(self._picked, between)
        if count == 0 or between <= 0:
            return lambda layer: fixed
        # Weights are computed at multiples of `window`, so that a draft depends on the text alone.
        weights = self._weigh(context, known - known % self._window)

        def picks(layer: int) -> Tensor:
            weight = weights[layer][:, first:last]
            full = torch.zeros(heads, between, device=device)
            full[:, : weight.shape[1]] = weight
            best = full.topk(count).indices.sort().values + first
            return torch.cat([fixed[:, :first], best, fixed[:, first:]], dim=1)

        return picks

    def _weigh(self, context: Context, length: int) -> list[Float[Tensor, "heads tokens"]]:
        """Returns by layer how much the last of `length` tokens attend to each earlier one."""
        text = Tokens(context.tokens[:length])
        if self._weighed != text or not self._weights:
            start = max(1, length - self._observed)
            cache = GrowingCache()
            for layer in range(self._depth):
                keys, values = (
                    context.features[f"{name}.{layer}"][:start].transpose(0, 1)[None]
                    for name in ("keys", "values")
                )
                cache.update(keys.to(self._model.dtype), values.to(self._model.dtype), layer)
            ids = torch.tensor([context.tokens[start:length]], device=home(self._model))
            heads = context.features["keys.0"].shape[1]
            self._weights = [
                _averaged(weights[0, :, :, :start], heads)
                for weights in attention_weights(self._model, cache, ids)
            ]
            self._weighed = text
        return self._weights


def _taken(
    rows: Float[Tensor, "tokens heads dim"], indices: Int[Tensor, "heads kept"]
) -> Float[Tensor, "heads kept dim"]:
    index = indices[:, :, None].expand(-1, -1, rows.shape[-1])
    return rows.transpose(0, 1).gather(1, index)


def _averaged(
    weights: Float[Tensor, "queries tokens known"], heads: int
) -> Float[Tensor, "heads known"]:
    """Returns how much of their attention to the known tokens goes to each, for its neighbours too.

    weights: attention's; what goes to other tokens is left out.
    heads: the number of heads of keys; each is attended to by as many heads of queries.
    """
    shares = weights.float() / weights.float().sum(-1, keepdim=True).clamp(min=TINY)
    weight = shares.reshape(heads, -1, shares.shape[-1]).sum(1)
    return torch.nn.functional.avg_pool1d(weight[None], POOL, stride=1, padding=POOL // 2)[0]


@torch.no_grad()
def attention_weights(
    model: Model, cache: GrowingCache, ids: Int[Tensor, "1 tokens"]
) -> list[Float[Tensor, "1 heads tokens all"]]:
    """Appends tokens to a cache, and returns by layer how much they attend to each token.

    Returns:
        An empty list if the model does not show it.
    """
    untyped: Any = model
    before = untyped.config._attn_implementation
    untyped.set_attn_implementation("eager")  # no other returns its weights
    try:
        name = cache_argument(type(model).forward)
        output = untyped(input_ids=ids, output_attentions=True, **{name: cache})
    finally:
        untyped.set_attn_implementation(before)
    return [weights for weights in output.attentions or () if weights is not None]


def shows_attention(model: Model) -> bool:
    """Returns whether each of a model's layers shows what it attends to, tested on two tokens."""
    size = int(model.config.get_text_config().vocab_size)
    ids = torch.tensor([[size // 2, size // 3]], device=home(model))
    try:
        weights = attention_weights(model, GrowingCache(), ids)
    except Exception:  # noqa: BLE001  a model may refuse it in any way
        return False
    layers = int(model.config.get_text_config().num_hidden_layers)
    return len(weights) == layers and all(part.shape[2:] == (2, 2) for part in weights)
