"""Masks in the form of flex attention, whose kernels skip blocks that no token sees."""

from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from outrider.base.pretrained import Model
from outrider.targets.passes.windows import LayerMasks

FLEX = "flex_attention"


def block_masks(model: Model, masks: LayerMasks) -> Any:
    """Returns a pass's masks as a model's attention takes them: as they are, unless it is flex.

    Flex attention takes a tensor to add, too, but its kernel for CPUs then writes beyond its memory
    (PyTorch 2.13).
    """
    if attention(model) != FLEX:
        return masks
    if isinstance(masks, dict):
        return {layer_type: _block_mask(mask) for layer_type, mask in masks.items()}
    return _block_mask(masks)


def attention(model: Model) -> str:
    """Returns transformers' name of a model's attention, such as sdpa."""
    return str(getattr(model.config.get_text_config(), "_attn_implementation", None))


def _block_mask(mask: Float[Tensor, "batch 1 tokens all"]) -> BlockMask:
    sees: Bool[Tensor, "batch tokens all"] = mask[:, 0] == 0

    def is_seen(text: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return sees[text, row, column]

    batch, tokens, known = sees.shape
    return create_block_mask(is_seen, batch, None, tokens, known, device=sees.device)
