"""The parts of a decoder layer, as in Llama and Qwen3, with a cache that can be cropped."""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu

from outrider.base.errors import ConfigError
from outrider.drafters.parts.networks.rotary import Scaling, rotated, rotation
from outrider.targets.passes.engine import engine_of
from outrider.targets.passes.growing_tensor import GrowingTensor
from outrider.targets.passes.masks import causal

State = Float[Tensor, "*batch width"]
"""A vector, or any number of them."""

Known = Float[Tensor, "*batch known"]
"""The logits of the tokens that a network knows, after each vector."""

States = Float[Tensor, "batch tokens width"]
Ids = Int[Tensor, "batch tokens"]
"""Ids of tokens, or their positions."""

Sees = Bool[Tensor, "batch 1 tokens all"] | None
"""What each token attends to, cached ones first; None for a chain."""


@final
@dataclass(frozen=True, slots=True)
class LayerConfig:
    """The sizes of a layer, named as in transformers' configs.

    input_size: the width of the attention's input; EAGLE-3's is twice the hidden size.
    scaling: how rotary positions are scaled.
    """

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    input_size: int
    scaling: Scaling = ()

    @classmethod
    def like(cls, config: Any, inputs: int = 1, inner: int | None = None) -> "LayerConfig":
        """Returns the sizes of a target's own layers, with Llama's defaults for missing entries.

        config: that of its decoder, of transformers.
        inputs: the attention's input size, as a multiple of the hidden size.
        inner: the width of the feed-forward layer. Defaults to the target's.

        Raises `ConfigError` if the layers differ in size.
        """
        rope = getattr(config, "rope_parameters", None) or {}
        try:
            width, heads = int(config.hidden_size), int(config.num_attention_heads)
            inner = inner or getattr(config, "intermediate_size", None) or 4 * width
            theta = getattr(config, "rope_theta", None) or rope.get("rope_theta")
            return cls(
                hidden_size=width,
                intermediate_size=int(inner),
                num_attention_heads=heads,
                num_key_value_heads=int(getattr(config, "num_key_value_heads", None) or heads),
                head_dim=int(getattr(config, "head_dim", None) or width // heads),
                rms_norm_eps=float(getattr(config, "rms_norm_eps", None) or 1e-6),
                rope_theta=float(theta or 10_000.0),
                input_size=inputs * width,
            )
        except (AttributeError, RuntimeError, TypeError):  # lists, or one entry for each layer
            raise ConfigError(
                f"target: {type(config).__name__} has layers of several sizes: expected one size,"
                " for the drafter's own layer"
            ) from None

    def entries(self) -> dict[str, Any]:
        """Returns the sizes as the entries of a config of transformers."""
        own = asdict(self)
        del own["input_size"]
        if scaling := dict(own.pop("scaling")):
            own["rope_parameters"] = {**scaling, "rope_theta": own.pop("rope_theta")}
        return own


@final
class KeysAndValues:
    """The keys and values of a layer for a text so far, [batch, heads, tokens, head_dim] each."""

    def __init__(self) -> None:
        self._keys, self._values = GrowingTensor(), GrowingTensor()

    def __len__(self) -> int:
        """Returns the number of tokens; an interruption can leave keys without values."""
        return min(len(self._keys), len(self._values))

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Appends those of new tokens, and returns those of all tokens.

        They are views that later calls may change. In training they are new tensors, so that
        gradients flow through them.
        """
        if torch.is_grad_enabled():
            return self._keys.concatenate(keys), self._values.concatenate(values)
        return self._keys.append(keys), self._values.append(values)

    def crop(self, length: int) -> None:
        """Keeps the first `length` tokens."""
        self._keys.crop(length)
        self._values.crop(length)


@final
class RMSNorm(nn.Module):
    """Root mean square normalisation with a learned scale (1910.07467)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight: nn.Parameter = nn.Parameter(torch.ones(width))
        self.eps: float = eps

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        full = x.float()
        scaled = full * torch.rsqrt(full.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * scaled.to(x.dtype)


@final
class Attention(nn.Module):
    """Attention with rotary positions and grouped heads, which are `normed` as in Qwen3 or not."""

    def __init__(self, config: LayerConfig, *, normed: bool = False) -> None:
        super().__init__()
        self.config: LayerConfig = config
        width = config.num_attention_heads * config.head_dim
        narrow = config.num_key_value_heads * config.head_dim
        self.q_proj: nn.Linear = nn.Linear(config.input_size, width, bias=False)
        self.k_proj: nn.Linear = nn.Linear(config.input_size, narrow, bias=False)
        self.v_proj: nn.Linear = nn.Linear(config.input_size, narrow, bias=False)
        self.o_proj: nn.Linear = nn.Linear(width, config.hidden_size, bias=False)
        norm = partial(RMSNorm, config.head_dim, config.rms_norm_eps) if normed else nn.Identity
        self.q_norm: nn.Module = norm()
        self.k_norm: nn.Module = norm()

    def forward(self, x: States, positions: Ids, sees: Sees, cache: KeysAndValues) -> States:
        """Returns the layer's output for the new tokens, and adds them to the cache."""
        rotary = self._rotation(x, positions)
        queries = rotated(self.q_norm(self._heads(self.q_proj, x)), rotary)
        keys, values = self._extend(x, rotary, cache)
        if sees is None and x.shape[1] > 1:  # a single token sees all
            sees = causal(x.shape[1], keys.shape[-2], x.device)[None, None]
        mixed = _mixed(queries, keys, values, sees)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(-2))
        return out

    def add_to_cache(self, x: States, positions: Ids, cache: KeysAndValues) -> None:
        """Adds tokens to the cache for later ones to attend to, without attending to anything."""
        self._extend(x, self._rotation(x, positions), cache)

    def _extend(
        self, x: Tensor, rotary: tuple[Tensor, Tensor], cache: KeysAndValues
    ) -> tuple[Tensor, Tensor]:
        keys = rotated(self.k_norm(self._heads(self.k_proj, x)), rotary)
        return cache.extend(keys, self._heads(self.v_proj, x))

    def _heads(self, layer: nn.Module, x: Tensor) -> Float[Tensor, "batch heads tokens head_dim"]:
        heads: Tensor = layer(x).view(*x.shape[:-1], -1, self.config.head_dim)
        return heads.transpose(1, 2)

    def _rotation(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        config = self.config
        return rotation(positions, config.head_dim, config.rope_theta, x.dtype, config.scaling)


@final
class FeedForward(nn.Module):
    """Llama's gated feed-forward network (2002.05202)."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        inner = config.intermediate_size
        self.gate_proj: nn.Linear = nn.Linear(config.hidden_size, inner, bias=False)
        self.up_proj: nn.Linear = nn.Linear(config.hidden_size, inner, bias=False)
        self.down_proj: nn.Linear = nn.Linear(inner, config.hidden_size, bias=False)

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        out: Tensor = self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
        return out


def layer_output(
    layer: Any,
    inputs: States,
    residual: States,
    *,
    positions: Ids,
    sees: Sees,
    cache: KeysAndValues,
) -> States:
    """Returns the residual after attention to the inputs, and after a feed-forward network.

    On a network that an engine has prepared, the engine may do it.

    layer: has `self_attn`, `post_attention_layernorm` and `mlp`.
    """
    done = engine_of(layer).run_layer(
        layer, inputs, residual, positions=positions, sees=sees, cache=cache
    )
    if done is not None:
        return done
    x = residual + layer.self_attn(inputs, positions, sees, cache)
    out: Tensor = x + layer.mlp(layer.post_attention_layernorm(x))
    return out


def _mixed(queries: Tensor, keys: Tensor, values: Tensor, sees: Sees) -> Tensor:
    """Returns what queries take from values, [batch, heads, tokens, head_dim].

    With a mask, the queries of a group are rows of one head: CUDA's fast kernels take no mask
    together with groups, and the slow one copies all keys and values.
    """
    groups = queries.shape[1] // keys.shape[1]
    if sees is None or groups == 1:
        return scaled_dot_product_attention(queries, keys, values, attn_mask=sees, enable_gqa=True)
    rows = queries.reshape(*keys.shape[:2], -1, keys.shape[-1])
    mask = sees.repeat(1, 1, groups, 1)
    return scaled_dot_product_attention(rows, keys, values, attn_mask=mask).reshape_as(queries)
