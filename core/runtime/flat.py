"""The flat pass: a decoder of Llama's kind as one loop, without the overhead of its modules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor
from torch.nn.functional import embedding, pad, rms_norm

from outrider.runtime.attention import attention, folded_mask, turn_of, turned
from outrider.runtime.linear import PackedLinear, merged, product
from outrider.runtime.passes import Pass, PassInput

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
    folded: what is added to the scores, as `folded_mask` returns it.
    widths: as in `PassInput`.
    """

    cache: "Cache"
    turn: tuple[Tensor, Tensor]
    folded: Tensor | None
    widths: Sequence[int] | None
    watch: Watch | None


def is_used_for(model: "PreTrainedModel") -> bool:
    """Returns whether the flat pass runs a model: it is supported, and its weights are packed."""
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

    A long chain is read in parts, unless there is a `watch`.
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
    folded = None if unmasked else folded_mask(inputs.mask, ids.shape[1], known, shared, x)
    attending = _Attending(
        cache, turn_of(base.rotary_emb, x, positions), folded, inputs.widths, watch
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
        last = known + count - 1
        ids, positions = pad(ids, (0, padding)), pad(positions, (0, padding), value=last)
    return ids, positions


def _attend(layer: Any, index: int, x: Tensor, attending: _Attending) -> Tensor:
    """Returns the states after a layer's attention."""
    module = layer.self_attn
    inner = _norm(layer.input_layernorm, x)
    queries, keys, values = (
        product(projection, inner).view(*x.shape[:-1], -1, module.head_dim)
        for projection in (module.q_proj, module.k_proj, module.v_proj)
    )
    if hasattr(module, "q_norm"):
        queries, keys = _norm(module.q_norm, queries), _norm(module.k_norm, keys)
    queries, keys = turned(queries, attending.turn), turned(keys, attending.turn)
    keys, values = attending.cache.update(keys.transpose(1, 2), values.transpose(1, 2), index)
    if attending.watch is not None:
        attending.watch(queries, keys, module.scaling)
    folded, widths = attending.folded, attending.widths
    mixed = attention(queries, keys, values, module.scaling, folded=folded, widths=widths)
    return merged(module.o_proj, mixed, x, "add")


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
