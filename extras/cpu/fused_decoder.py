"""A decoder of Llama's kind as one loop, without the overhead of its modules."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import embedding, pad, rms_norm

from outrider.base.pretrained import Cache, Model
from outrider.extras.cpu import native_pass
from outrider.extras.cpu.attention import attention, gqa_mask, rotated, rotation_of
from outrider.extras.cpu.native_weights import native_weights
from outrider.extras.cpu.packed_linear import NATIVE, merged, packing, product, rounded
from outrider.targets.passes.pass_input import Pass, PassInput, in_parts

KINDS = ("llama", "mistral", "qwen2", "qwen3")
"""The model types whose layers are: norm, attention, norm, gated feed-forward."""


@final
@dataclass(frozen=True, slots=True)
class _AttentionInputs:
    """What attention needs besides a layer's own weights; the same for all layers of a pass.

    cache_dtype: the precision of the cache.
    texts: the number of texts, and the number of new tokens of each.
    rotation: cosine and sine of the positions.
    gqa_mask: the mask added to the scores, as `attention.gqa_mask` returns it.
    widths: as in `PassInput`.
    """

    cache: Cache
    cache_dtype: torch.dtype
    texts: tuple[int, int]
    rotation: tuple[Tensor, Tensor]
    gqa_mask: Tensor | None
    widths: Sequence[int] | None

    def text_by_text(self, x: Float[Tensor, "rows width"], *dim: int) -> Tensor:
        """Returns the rows as [batch, tokens, width], without the padding of their number.

        dim: the width of a head; the shape is then [batch, tokens, heads, dim].
        """
        batch, count = self.texts
        return x[: batch * count].view(batch, count, -1, *dim)


def is_used_for(model: Model) -> bool:
    """Returns whether it runs a model: the kind is supported, and the weights are packed."""
    return packing(_head(model)) is not None and supports(model)


def supports(model: Model) -> bool:
    """Returns whether the fused decoder can run a model.

    Models with attention windows or another activation function, and those that wrap another
    model, as PEFT's do, are left to transformers.
    """
    config: Any = model.config
    layer_types = set(getattr(config, "layer_types", None) or ["full_attention"])
    return (
        config.model_type in KINDS
        and hasattr(getattr(model, "model", None), "layers")
        and config.hidden_act == "silu"
        and layer_types == {"full_attention"}
        and not getattr(config, "sliding_window", None)
    )


def is_native(model: Model) -> bool:
    """Returns whether the native library runs a model's layers."""
    return is_used_for(model) and native_pass.is_used_for(model)


def cache_dtype(model: Model) -> torch.dtype:
    """Returns the precision of the keys and values in a model's cache."""
    return native_weights(model).cache_dtype if is_native(model) else _precision(model)


def _precision(model: Model) -> torch.dtype:
    """Returns the precision of a model's states.

    It is the weights' own, or float32 if the native library multiplies them.
    """
    multiplies = is_used_for(model) and packing(_head(model)) == NATIVE
    return torch.float32 if multiplies else model.dtype


def fused_pass(model: Model, cache: Cache, inputs: PassInput) -> Pass:
    """Appends tokens to a cache, and returns their logits and states.

    A long chain is read in parts.
    """
    run = native_pass.native_pass if native_pass.is_used_for(model) else _run_layers
    if any(option is not None for option in (inputs.mask, inputs.positions, inputs.widths)):
        return run(model, cache, inputs)
    return in_parts(inputs, partial(run, model, cache))


def _run_layers(model: Model, cache: Cache, inputs: PassInput) -> Pass:
    """Runs all layers over the tokens at once.

    All products run on a rounded number of rows, which suits the packed kernels. The rows added to
    round it are never attended to, and never cached.
    """
    base: Any = model.base_model
    config: Any = model.config
    (batch, count), cached = inputs.ids.shape, int(cache.get_seq_length())
    x = embedding(inputs.ids, base.embed_tokens.weight).to(_precision(model))
    # A single token of each text sees everything up to its width, and needs no mask.
    unmasked = inputs.widths is not None and count == 1
    queries_per_key = config.num_attention_heads // config.num_key_value_heads
    mask = None if unmasked else gqa_mask(inputs.mask, count, cached, queries_per_key, x)
    positions = inputs.positions
    if positions is None:
        positions = torch.arange(cached, cached + count, device=x.device)[None]
    rotation = rotation_of(base.rotary_emb, x, positions)
    attending = _AttentionInputs(
        cache, cache_dtype(model), (batch, count), rotation, mask, inputs.widths
    )
    x = _flattened(x)
    states: dict[int, Tensor] = {}
    layers = base.layers[: config.num_hidden_layers]
    for index, layer in enumerate(layers):
        if index in inputs.states:
            states[index] = attending.text_by_text(x).to(model.dtype)
        x = _attend(layer, index, x, attending)
        x = _feed_forward(layer, x)
    x = attending.text_by_text(x)
    last = set(inputs.states) & {len(layers), -1}
    if last:
        states |= dict.fromkeys(last, _norm(base.norm, x).to(model.dtype))
    return Pass(product(_head(model), _norm(base.norm, x[:, count - inputs.rows :])), states)


def _head(model: Any) -> Any:
    """Returns the layer that turns the last state into logits."""
    return model.get_output_embeddings()


def _flattened(x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "rows width"]:
    """Returns the tokens of all texts as rows, with zeros up to a rounded number of rows."""
    x = x.flatten(0, 1)
    missing = rounded(len(x)) - len(x)
    return pad(x, (0, 0, 0, missing)) if missing else x


def _attend(
    layer: Any, index: int, x: Float[Tensor, "rows width"], attending: _AttentionInputs
) -> Float[Tensor, "rows width"]:
    """Returns the states after a layer's attention."""
    module = layer.self_attn
    inner = _norm(layer.input_layernorm, x)
    queries, keys, values = (
        attending.text_by_text(product(projection, inner), module.head_dim)
        for projection in (module.q_proj, module.k_proj, module.v_proj)
    )
    if hasattr(module, "q_norm"):
        queries, keys = _norm(module.q_norm, queries), _norm(module.k_norm, keys)
    queries, keys = rotated(queries, attending.rotation), rotated(keys, attending.rotation)
    keys, values = (part.transpose(1, 2).to(attending.cache_dtype) for part in (keys, values))
    keys, values = attending.cache.update(keys, values, index)
    keys, values = keys.to(x.dtype), values.to(x.dtype)
    mask, widths = attending.gqa_mask, attending.widths
    mixed = attention(queries, keys, values, module.scaling, mask=mask, widths=widths)
    return merged(module.o_proj, _flattened(mixed), x, "add")


def _feed_forward(layer: Any, x: Tensor) -> Tensor:
    """Returns the states after a layer's gated feed-forward."""
    inner = _norm(layer.post_attention_layernorm, x)
    gate = product(layer.mlp.gate_proj, inner, "swish")
    return merged(layer.mlp.down_proj, merged(layer.mlp.up_proj, inner, gate, "mul"), x, "add")


def _norm(module: Any, x: Tensor) -> Tensor:
    if isinstance(module, nn.Identity):
        return x
    if x.dtype is not torch.float32:  # PyTorch's function sums in float32
        return rms_norm(x, (x.shape[-1],), module.weight, module.variance_epsilon)
    # On a CPU, these small steps take a quarter of the function's time.
    scale = x.square().mean(-1, keepdim=True).add_(module.variance_epsilon).rsqrt_()
    return (x * scale).mul_(module.weight)
