"""The MLP speculator: IBM's files, and stages that read the tokens drawn."""

from typing import Any, ClassVar

import torch
from tiny.published import PublishedNetwork, Refused, hidden
from torch.nn.functional import gelu

from outrider.drafters.mlp_speculator import MLPSpeculator, MLPSpeculatorNetwork


def normed(x: torch.Tensor) -> torch.Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()


class TestPublished(PublishedNetwork):
    """Two stages 12 wide, with and without a norm of the target's state."""

    drafter, network, longest, variants = MLPSpeculator, MLPSpeculatorNetwork, 2, (False, True)
    refused: ClassVar[Refused] = {
        r"tensor ln\.1\.bias is missing": ({}, {"speculator.ln.1.bias": None})
    }

    def layout(self, model: Any, variant: Any) -> Any:
        tensors = {}
        for stage in range(2):
            shapes = {"emb": (31, 12), "proj": (12, 12 if stage else 16), "head": (31, 12)}
            for name, shape in shapes.items():
                tensors[f"speculator.{name}.{stage}.weight"] = torch.randn(shape)
            for name in ("weight", "bias"):
                tensors[f"speculator.ln.{stage}.{name}"] = torch.randn(12)
        sizes = {"n_predict": 2, "inner_dim": 12, "emb_dim": 16, "vocab_size": 31}
        return sizes | {"scale_input": variant}, tensors

    def reference(self, model: Any, w: Any, text: Any, drafted: Any, variant: Any) -> Any:
        part = {name.removeprefix("speculator."): tensor for name, tensor in w.items()}
        state_weight, probs = 0.5 ** (0.5 / 2), []
        ratio = ((1 - state_weight**2) * 12 / 2) ** 0.5 / state_weight
        state = hidden(model, text)[0, -1]
        state = normed(state) / 2**0.5 if variant else state
        for stage, token in enumerate([text[-1], *drafted[:-1]]):
            word = part[f"emb.{stage}.weight"][token]
            state = part[f"proj.{stage}.weight"] @ state + ratio * word
            state = normed(state) * part[f"ln.{stage}.weight"] + part[f"ln.{stage}.bias"]
            state = gelu(state)
            probs.append((part[f"head.{stage}.weight"] @ state).softmax(-1))
        return probs
