"""Medusa: FasterDecoding's files, and heads that are independent of each other."""

from pathlib import Path
from typing import Any, ClassVar

import torch
from tiny.drafters import tokens_of
from tiny.published import PublishedNetwork, Refused, hidden
from torch.nn.functional import silu

from outrider import decode
from outrider.drafters.medusa import Medusa, MedusaNetwork
from outrider.verifiers.recursive import Candidates


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

    def test_medusa_choices_are_a_tree_of_paths(self, llama: Any, tmp_path: Path) -> None:
        target = self.target(llama)
        self.folder(tmp_path, target, None)
        drafter = Medusa(str(tmp_path), tree="top:[[0],[0,0],[1],[0,1],[0,0,0]]")
        rounds = list(
            decode(target, drafter, Candidates(), [3, 4], gamma=3, budget=5, max_new_tokens=12)
        )
        assert rounds[1].parents == (-1, -1, 0, 0, 2)
        first, second, *by_depth = rounds[1].draft[:4]
        assert first != second and by_depth[0] != by_depth[1]
        assert len(tokens_of(rounds)) == 12
