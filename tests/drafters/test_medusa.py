"""Medusa: FasterDecoding's files, and heads that are independent of each other."""

from typing import Any, ClassVar

import torch
from tiny.published import PublishedNetwork, Refused, hidden
from torch.nn.functional import silu

from outrider.drafters.medusa import Medusa, MedusaNetwork


class TestPublished(PublishedNetwork):
    """Three heads of one block."""

    drafter, network, longest, file = Medusa, MedusaNetwork, 3, "medusa_lm_head.pt"
    refused: ClassVar[Refused] = {
        "medusa_num_heads=0: expected a whole number of at least 1": ({"medusa_num_heads": 0}, {}),
        "block='odd': expected one of residual, hidden": ({"block": "odd"}, {}),
    }

    def layout(self, model: Any, variant: Any) -> Any:
        tensors = {}
        for head in range(3):
            tensors[f"{head}.0.linear.weight"] = torch.randn(16, 16) / 4
            tensors[f"{head}.0.linear.bias"] = torch.randn(16)
            tensors[f"{head}.1.weight"] = torch.randn(31, 16) / 4
        sizes = {"medusa_num_heads": 3, "medusa_num_layers": 1}
        return sizes | {"base_model_name_or_path": "tiny/llama"}, tensors

    def reference(self, model: Any, w: Any, text: Any, drafted: Any, variant: Any) -> Any:
        state, probs = hidden(model, text)[0, -1], []
        for head in range(len(drafted)):
            bias = w[f"{head}.0.linear.bias"]
            block = state + silu(w[f"{head}.0.linear.weight"] @ state + bias)
            probs.append((w[f"{head}.1.weight"] @ block).softmax(-1))
        return probs
