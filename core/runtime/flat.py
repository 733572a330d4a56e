"""The flat pass: a decoder of Llama's kind as one loop over its layers, without a module's overhead."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import embedding, pad, rms_norm, scaled_dot_product_attention

from outrider.runtime.linear import PackedLinear, merged, product
from outrider.runtime.passes import Pass, PassInput
from outrider.runtime.tree_mask import additive_mask, causal

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache

KINDS = ("llama", "mistral", "qwen2", "qwen3")
"""The model types whose layers are: norm, attention, norm, gated feed-forward."""

PART = 256
"""Tokens of a chain that are read at once; more would make the tensors between layers large."""

EXACT = 32
"""A part of up to this many tokens is read as it is; a longer one is padded to a multiple.

Packed products make a kernel for each number of rows and keep it, some four megabytes each, so
that prompts of all lengths would take hundreds.
"""

Watch = Callable[[Tensor, Tensor, float], None]
"""Is shown what each layer attends with: the queries [batch, tokens, heads, dim] and keys
[batch, heads, all, dim], both with their positions, and the scale of their products."""


@final
@dataclass(frozen=True, slots=True)
class _Attending:
    """What attention needs besides a layer's own weights; the same for all layers of a pass.

    turn: cosine and sine of the positions.
    folded: what is added to the scores, as `_folded` returns it.
    widths: as in `PassInput`.
    """

    cache: "Cache"
    turn: tuple[Tensor, Tensor]
    folded: Tensor | None
    widths: Sequence[int] | None
    watch: Watch | None


def is_used_for(model: "PreTrainedModel") -> bool:
    """Returns whether a model is read by the flat pass: it is supported, and its weights are packed."""
    return isinstance(_head(model), PackedLinear) and supports(model)


def supports(model: "PreTrainedModel") -> bool:
    """Returns whether the flat pass computes what the model does.

    Models that attend to a window, or activate with another function, are left to transformers.
    """
    config: Any = model.config
    layer_types = set(getattr(config, "layer_types", None) or ["full_attention"])
    return (
        config.model_type in KINDS
        and config.hidden_act == "silu"
        and layer_types == {"full_attention"}
        and not getattr(config, "sliding_window", None)
    )


def flat_pass(
    model: "PreTrainedModel", cache: "Cache", inputs: PassInput, watch: Watch | None = None
) -> Pass:
    """Appends tokens to a cache, and returns what the model says of them.

    A long chain is read in parts. watch: sees what each layer attends with; reads in one go.
    """
    special = (inputs.mask, inputs.positions, inputs.widths, watch)
    if any(option is not None for option in special):
        return _run_layers(model, cache, inputs, watch=watch)
    parts, ahead = [], inputs.ids.shape[1]
    for ids in torch.split(inputs.ids, PART, dim=1):
        count = ids.shape[1]
        ahead -= count
        even = count if count <= EXACT else -(-count // EXACT) * EXACT
        part = replace(inputs, ids=ids, rows=max(0, min(count, inputs.rows - ahead)))
        parts.append(_run_layers(model, cache, part, padding=even - count))
    if len(parts) == 1:
        return parts[0]
    states = {
        number: torch.cat([part.states[number] for part in parts], dim=1)
        for number in inputs.states
    }
    return Pass(torch.cat([part.logits for part in parts], dim=1), states)


def _run_layers(
    model: "PreTrainedModel",
    cache: "Cache",
    inputs: PassInput,
    *,
    watch: Watch | None = None,
    padding: int = 0,
) -> Pass:
    """Runs all layers over the tokens at once.

    padding: tokens to read after a chain and then forget; nothing before them sees them.
    """
    base: Any = model.base_model
    config: Any = model.config
    count, known = inputs.ids.shape[1], int(cache.get_seq_length())
    ids, positions = _padded(inputs, known, padding)
    x = embedding(ids, base.embed_tokens.weight)
    # A single token of each text sees everything up to its width, and needs no mask.
    unmasked = inputs.widths is not None and ids.shape[1] == 1
    shared = config.num_attention_heads // config.num_key_value_heads
    folded = None if unmasked else _folded(inputs.mask, ids.shape[1], known, shared, x)
    attending = _Attending(
        cache, _turn(base.rotary_emb, x, positions), folded, inputs.widths, watch
    )
    states: dict[int, Tensor] = {}
    layers = base.layers[: config.num_hidden_layers]
    for index, layer in enumerate(layers):
        if index in inputs.states:
            states[index] = x
        x = _attend(layer, index, x, attending)
        x = _feed_forward(layer, x)
    if padding:
        cache.crop(-padding)
        x = x[:, :count]
        states = {number: state[:, :count] for number, state in states.items()}
    last = set(inputs.states) & {len(layers), -1}
    if last:
        states |= dict.fromkeys(last, _norm(base.norm, x))
    return Pass(product(_head(model), _norm(base.norm, x[:, count - inputs.rows :])), states)


def _head(model: Any) -> Any:
    """Returns the layer that makes logits of the last state."""
    return model.get_output_embeddings()


def _padded(inputs: PassInput, known: int, padding: int) -> tuple[Tensor, Tensor]:
    """Returns ids and positions, with `padding` more tokens at the position of the last."""
    ids, positions, count = inputs.ids, inputs.positions, inputs.ids.shape[1]
    if positions is None:
        positions = torch.arange(known, known + count, device=ids.device)[None]
    if padding:
        ids, positions = (
            pad(ids, (0, padding)),
            pad(positions, (0, padding), value=known + count - 1),
        )
    return ids, positions


def _attend(layer: Any, index: int, x: Tensor, attending: _Attending) -> Tensor:
    """Returns the states after a layer's attention."""
    attention = layer.self_attn
    inner = _norm(layer.input_layernorm, x)
    queries, keys, values = (
        product(projection, inner).view(*x.shape[:-1], -1, attention.head_dim)
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    if hasattr(attention, "q_norm"):
        queries, keys = _norm(attention.q_norm, queries), _norm(attention.k_norm, keys)
    queries, keys = _turned(queries, attending.turn), _turned(keys, attending.turn)
    keys, values = attending.cache.update(keys.transpose(1, 2), values.transpose(1, 2), index)
    if attending.watch is not None:
        attending.watch(queries, keys, attention.scaling)
    mixed = _mixed(queries, keys, values, attention.scaling, attending)
    return merged(attention.o_proj, mixed, x, "add")


def _feed_forward(layer: Any, x: Tensor) -> Tensor:
    """Returns the states after a layer's gated feed-forward."""
    inner = _norm(layer.post_attention_layernorm, x)
    gate = product(layer.mlp.gate_proj, inner, "swish")
    return merged(layer.mlp.down_proj, merged(layer.mlp.up_proj, inner, gate, "mul"), x, "add")


def _norm(module: Any, x: Tensor) -> Tensor:
    if x.dtype is not torch.float32:  # its own function sums in float32
        return rms_norm(x, (x.shape[-1],), module.weight, module.variance_epsilon)
    # The same in five small steps, which on a CPU take a quarter of that function's time.
    scale = x.square().mean(-1, keepdim=True).add_(module.variance_epsilon).rsqrt_()
    return (x * scale).mul_(module.weight)


def _turn(rotary: Any, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Returns cosine and sine of each position, the sine with the sign that its half is turned by."""
    cosine, sine = rotary(x, positions)
    half = sine.shape[-1] // 2
    sine = torch.cat([-sine[..., :half], sine[..., half:]], dim=-1)
    return cosine[:, :, None], sine[:, :, None]


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    return torch.addcmul(x * turn[0], x.roll(x.shape[-1] // 2, -1), turn[1])


def _folded(
    mask: Tensor | None, count: int, known: int, shared: int, x: Tensor
) -> Float[Tensor, "batch 1 rows all"] | None:
    """Returns what is added to attention's scores, repeated for the heads that share keys.

    Those heads lie below each other as rows, so that no key is repeated for them. None where
    nothing is added: a single token sees everything before it, and the first pass over a chain
    is causal.

    shared: how many heads of queries share one of keys.
    """
    if mask is None:
        if count == 1 or known == 0:
            return None
        mask = additive_mask(causal(count, known + count, x.device), x.dtype)[None, None]
    return mask.repeat(1, 1, shared, 1)


def _mixed(
    queries: Float[Tensor, "batch tokens heads dim"],
    keys: Tensor,
    values: Tensor,
    scale: float,
    attending: _Attending,
) -> Float[Tensor, "batch tokens width"]:
    """Returns attention's output, all heads side by side."""
    batch, count, _, dim = queries.shape
    folded = attending.folded
    if folded is None and count > 1:
        mixed = scaled_dot_product_attention(
            queries.transpose(1, 2), keys, values, is_causal=True, scale=scale, enable_gqa=True
        )
        return mixed.transpose(1, 2).reshape(batch, count, -1)
    narrow = keys.shape[1]
    rows = queries.view(batch, count, narrow, -1, dim).permute(0, 2, 3, 1, 4)
    rows = rows.reshape(batch, narrow, -1, dim)
    if attending.widths is None:
        mixed = scaled_dot_product_attention(rows, keys, values, attn_mask=folded, scale=scale)
    else:  # text by text, so that a short one is not read as far as the longest
        texts = [slice(text, text + 1) for text in range(batch)]
        mixed = torch.cat(
            [
                scaled_dot_product_attention(
                    rows[text],
                    keys[text, :, :width],
                    values[text, :, :width],
                    attn_mask=None if folded is None else folded[text, :, :, :width],
                    scale=scale,
                )
                for text, width in zip(texts, attending.widths, strict=True)
            ]
        )
    mixed = mixed.view(batch, narrow, -1, count, dim).permute(0, 3, 1, 2, 4)
    return mixed.reshape(batch, count, -1)
