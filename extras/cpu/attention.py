"""Attention of large trees by PyTorch: positions, masks, products without copies of shared keys."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from outrider.targets.passes.masks import additive_mask, causal


def rotation_of(rotary: Any, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the cosine and the signed sine of each position, as the library takes them."""
    cosine, sine = rotary(x, positions)
    half = sine.shape[-1] // 2
    sine = torch.cat([-sine[..., :half], sine[..., half:]], dim=-1)
    return cosine[:, :, None], sine[:, :, None]


def gqa_mask(
    mask: Tensor | None, count: int, cached: int, queries_per_key: int, x: Tensor
) -> Float[Tensor, "batch 1 rows kv_length"] | None:
    """Returns the additive mask of attention, repeated for the heads that share keys.

    Those heads are stacked as rows, so that no key is repeated for them. None if no mask is needed:
    a single token sees everything before it, and the first pass over a chain is causal.

    count, cached: the numbers of new tokens and of cached ones.
    queries_per_key: how many query heads share a key head.
    """
    if mask is None:
        if count == 1 or cached == 0:
            return None
        mask = additive_mask(causal(count, cached + count, x.device), x.dtype)[None, None]
    return mask.to(x.dtype).repeat(1, 1, queries_per_key, 1)


def attention(
    queries: Float[Tensor, "batch tokens heads dim"],
    keys: Float[Tensor, "batch kv_heads kv_length dim"],
    values: Float[Tensor, "batch kv_heads kv_length dim"],
    scale: float,
    mask: Tensor | None,
) -> Float[Tensor, "batch tokens width"]:
    """Returns attention's output, all heads side by side.

    scale: the factor of the products of queries and keys.
    mask: what is added to them, as `gqa_mask` returns it.
    """
    batch, count, _, dim = queries.shape
    if mask is None and count > 1:
        mixed = scaled_dot_product_attention(
            queries.transpose(1, 2), keys, values, is_causal=True, scale=scale, enable_gqa=True
        )
        return mixed.transpose(1, 2).reshape(batch, count, -1)
    kv_heads = keys.shape[1]
    rows = queries.view(batch, count, kv_heads, -1, dim).permute(0, 2, 3, 1, 4)
    rows = rows.reshape(batch, kv_heads, -1, dim)
    mixed = scaled_dot_product_attention(rows, keys, values, attn_mask=mask, scale=scale)
    mixed = mixed.view(batch, kv_heads, -1, count, dim).permute(0, 3, 1, 2, 4)
    return mixed.reshape(batch, count, -1)
