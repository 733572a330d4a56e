"""The shapes of what layers take and return."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

State = Float[Tensor, "*batch width"]
"""A vector, or any number of them."""

Known = Float[Tensor, "*batch known"]
"""The logits of the tokens that a network knows, after each vector."""

States = Float[Tensor, "batch tokens width"]
Ids = Int[Tensor, "batch tokens"]
"""Ids of tokens, or their positions."""

Sees = Bool[Tensor, "batch 1 tokens all"] | None
"""What each token attends to, cached ones first; None for a chain."""
