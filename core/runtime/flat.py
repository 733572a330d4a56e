"""A decoder of Llama's kind as one flat loop over its own layers, without a module's overhead."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding, pad, rms_norm, scaled_dot_product_attention

from outrider.runtime.linear import PackedLinear, merged, product

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache

KINDS = ("llama", "mistral", "qwen2", "qwen3")
"""The model types whose layers are: norm, attention, norm, gated feed-forward."""


PART = 256
"""Tokens of a chain that are read in a pass: no more at once keeps what lies between layers small."""

EXACT = 32
"""A part of up to so many tokens is read as it is, a longer one filled up to a multiple.

Packed products have kernels made for each number of rows, and keep them: some four megabytes
for a number, so that prompts of all lengths would take hundreds.
"""

Watch = Callable[[Tensor, Tensor, float], None]
"""Sees each layer's queries [batch, tokens, heads, dim] and keys [batch, heads, all, dim], turned,
and the scale of their products."""


def serves(model: "PreTrainedModel") -> bool:
    """Returns whether a model is of such a kind, and packed."""
    loose: Any = model
    return isinstance(loose.get_output_embeddings(), PackedLinear) and knows(model)


def knows(model: "PreTrainedModel") -> bool:
    """Returns whether a model is of such a kind.

    What attends to a window, or activates with another function, is left to transformers.
    """
    config: Any = model.config
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    return (
        config.model_type in KINDS
        and config.hidden_act == "silu"
        and kinds == {"full_attention"}
        and not getattr(config, "sliding_window", None)
    )


def step(
    model: "PreTrainedModel",
    ids: Int[Tensor, "batch tokens"],
    cache: "Cache",
    rows: int,
    mask: Float[Tensor, "batch 1 tokens all"] | None = None,
    positions: Int[Tensor, "batch tokens"] | None = None,
    states: Collection[int] = (),
    watch: Watch | None = None,
    widths: Sequence[int] | None = None,
) -> tuple[Float[Tensor, "batch rows vocab"], dict[int, Float[Tensor, "batch tokens width"]]]:
    """As `outrider.runtime.step.run_pass`: the logits of the last rows, and the states asked for.

    watch: is shown what each layer attends with.
    widths: of each text of a batch, how many of the cache's places it reads at most.
    """
    if any(given is not None for given in (mask, positions, watch, widths)):
        return _pass(model, ids, cache, rows, mask, positions, states, watch, widths)
    parts, ahead = [], ids.shape[1]
    for part in torch.split(ids, PART, dim=1):
        own = part.shape[1]
        ahead -= own
        even = own if own <= EXACT else -(-own // EXACT) * EXACT
        scored = max(0, min(own, rows - ahead))
        parts.append(_pass(model, part, cache, scored, states=states, filling=even - own))
    if len(parts) == 1:
        return parts[0]
    found = {place: torch.cat([each[place] for _, each in parts], dim=1) for place in states}
    return torch.cat([logits for logits, _ in parts], dim=1), found


def _pass(
    model: "PreTrainedModel",
    ids: Tensor,
    cache: "Cache",
    rows: int,
    mask: Tensor | None = None,
    positions: Tensor | None = None,
    states: Collection[int] = (),
    watch: Watch | None = None,
    widths: Sequence[int] | None = None,
    filling: int = 0,
) -> tuple[Tensor, dict[int, Tensor]]:
    """filling: tokens to read after a chain, which nothing before them sees, and to forget."""
    base: Any = model.base_model
    config: Any = model.config
    own, known = ids.shape[1], int(cache.get_seq_length())
    count = own + filling
    if positions is None:
        positions = torch.arange(known, known + own, device=ids.device)[None]
    if filling:  # at the text's last position, and no further
        ids, positions = pad(ids, (0, filling)), pad(positions, (0, filling), value=known + own - 1)
    x = embedding(ids, base.embed_tokens.weight)
    turn = _turn(base.rotary_emb, x, positions)
    heads, narrow = config.num_attention_heads, config.num_key_value_heads
    # Heads that share keys lie below each other as rows, so that no key is repeated for them.
    # A single token of each text sees all of its places, so that no mask is needed either.
    plain = widths is not None and count == 1
    folded = None if plain else _folded(mask, count, known, heads // narrow, x)
    found: dict[int, Tensor] = {}
    layers = base.layers[: config.num_hidden_layers]
    for place, layer in enumerate(layers):
        if place in states:
            found[place] = x
        attention = layer.self_attn
        inner = _norm(layer.input_layernorm, x)
        queries, keys, values = (
            product(each, inner).view(*ids.shape, -1, attention.head_dim)
            for each in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        if hasattr(attention, "q_norm"):
            queries, keys = _norm(attention.q_norm, queries), _norm(attention.k_norm, keys)
        queries, keys = _turned(queries, turn), _turned(keys, turn)
        keys, values = cache.update(keys.transpose(1, 2), values.transpose(1, 2), place)
        if watch is not None:
            watch(queries, keys, attention.scaling)
        mixed = _mixed(queries, keys, values, folded, attention.scaling, widths)
        x = merged(attention.o_proj, mixed, x, "add")
        inner = _norm(layer.post_attention_layernorm, x)
        gate = product(layer.mlp.gate_proj, inner, "swish")
        x = merged(layer.mlp.down_proj, merged(layer.mlp.up_proj, inner, gate, "mul"), x, "add")
    if filling:
        cache.crop(-filling)
        x, found = x[:, :own], {place: each[:, :own] for place, each in found.items()}
    last = len(layers)
    if set(states) & {last, -1}:
        found |= dict.fromkeys(set(states) & {last, -1}, _norm(base.norm, x))
    loose: Any = model
    return product(loose.get_output_embeddings(), _norm(base.norm, x[:, own - rows :])), found


def _norm(module: Any, x: Tensor) -> Tensor:
    if x.dtype is not torch.float32:  # sums are taken in float32 there
        return rms_norm(x, (x.shape[-1],), module.weight, module.variance_epsilon)
    # The same in five small steps, which on a CPU take a quarter of the time of its own function.
    scale = x.square().mean(-1, keepdim=True).add_(module.variance_epsilon).rsqrt_()
    return (x * scale).mul_(module.weight)


def _turn(rotary: Any, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Returns cosine and sine of each position, the sine with the sign that its half turns by."""
    cosine, sine = rotary(x, positions)
    half = sine.shape[-1] // 2
    sine = torch.cat([-sine[..., :half], sine[..., half:]], dim=-1)
    return cosine[:, :, None], sine[:, :, None]


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    return torch.addcmul(x * turn[0], x.roll(x.shape[-1] // 2, -1), turn[1])


def _folded(mask: Tensor | None, count: int, known: int, share: int, x: Tensor) -> Tensor | None:
    """Returns what is added to attention's scores, the rows of each group of heads below another.

    None where nothing is: a single token sees everything before it. A first pass over a chain
    needs none either.
    """
    if mask is None:
        if count == 1 or known == 0:
            return None
        mask = x.new_full((count, known + count), float("-inf")).triu_(known + 1)[None, None]
    return mask.repeat(1, 1, share, 1)


def _mixed(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    folded: Tensor | None,
    scale: float,
    widths: Sequence[int] | None,
) -> Tensor:
    """Returns attention's output [batch, tokens, width], of queries [batch, tokens, heads, dim]."""
    batch, count, _, dim = queries.shape
    if folded is None and count > 1:
        mixed = scaled_dot_product_attention(
            queries.transpose(1, 2), keys, values, is_causal=True, scale=scale, enable_gqa=True
        )
        return mixed.transpose(1, 2).reshape(batch, count, -1)
    narrow = keys.shape[1]
    rows = queries.view(batch, count, narrow, -1, dim).permute(0, 2, 3, 1, 4)
    rows = rows.reshape(batch, narrow, -1, dim)
    if widths is None:
        mixed = scaled_dot_product_attention(rows, keys, values, attn_mask=folded, scale=scale)
    else:  # one by one, so that a short text does not read as far as the longest
        mixed = torch.cat(
            [
                scaled_dot_product_attention(
                    rows[text : text + 1],
                    keys[text : text + 1, :, :width],
                    values[text : text + 1, :, :width],
                    attn_mask=None if folded is None else folded[text : text + 1, :, :, :width],
                    scale=scale,
                )
                for text, width in enumerate(widths)
            ]
        )
    mixed = mixed.view(batch, narrow, -1, count, dim).permute(0, 3, 1, 2, 4)
    return mixed.reshape(batch, count, -1)
