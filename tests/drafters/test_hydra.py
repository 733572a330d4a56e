"""Hydra: the published files, and heads that read the tokens drafted before them."""

from typing import Any, ClassVar

import torch
from tiny.drafters import bound
from tiny.published import PublishedNetwork, Refused, hidden
from torch.nn.functional import linear, silu

from outrider import Sampling
from outrider.drafters.hydra import Hydra, HydraNetwork
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import context_after, write_draft


class TestPublished(PublishedNetwork):
    """Three heads of two blocks."""

    drafter, network, longest, file = Hydra, HydraNetwork, 3, "hydra_lm_head.pt"
    refused: ClassVar[Refused] = {
        "hydra_head_arch='prefix-mlp': expected 'mlp'": ({"hydra_head_arch": "prefix-mlp"}, {}),
        "grounded_heads=False: expected True": ({"grounded_heads": False}, {}),
        "hydra_num_heads=0: expected a whole number of at least 1": ({"hydra_num_heads": 0}, {}),
        "its hidden_size is 8, the target's 16": ({"hidden_size": 8}, {}),
        r"tensor hydra_mlp\.3\.0\.linear\.weight is missing": ({"hydra_num_heads": 4}, {}),
    }

    def layout(self, model: Any, variant: Any) -> Any:
        tensors = {}

        def add(name: str, *shape: int) -> None:
            tensors[f"{name}.weight"] = torch.randn(*shape) / 4
            tensors[f"{name}.bias"] = torch.randn(shape[0])

        for head in range(3):
            add(f"hydra_mlp.{head}.0.linear", 16, 16 * (head + 2))
            add(f"hydra_mlp.{head}.0.res_connection", 16, 16 * (head + 2))
            add(f"hydra_mlp.{head}.1.linear", 16, 16)
            add(f"hydra_lm_head.{head}", 31, 16)
        config = {"hydra_num_heads": 3, "hydra_num_layers": 2, "hydra_head_arch": "mlp"}
        return config | {"grounded_heads": True, "hidden_size": 16, "vocab_size": 31}, tensors

    def reference(self, model: Any, w: Any, text: Any, drafted: Any, variant: Any) -> Any:
        def part(name: str, x: torch.Tensor) -> torch.Tensor:
            return linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

        words, probs = model.get_input_embeddings().weight, []
        inputs = [hidden(model, text)[0, -1], words[text[-1]]]
        for head, token in enumerate(drafted):
            x = torch.cat(inputs)
            inner = silu(part(f"hydra_mlp.{head}.0.linear", x))
            x = part(f"hydra_mlp.{head}.0.res_connection", x) + inner
            x = x + silu(part(f"hydra_mlp.{head}.1.linear", x))
            probs.append(part(f"hydra_lm_head.{head}", x).softmax(-1))
            inputs.append(words[token])
        return probs


def test_untrained_heads_repeat_the_targets(llama: Any) -> None:
    target = TransformersTarget(llama())
    drafter = bound(Hydra("untrained"), target)
    context = context_after(drafter, target, [3, 9, 4])
    draft = write_draft(drafter, target, context, gamma=2, sampling=Sampling(temperature=1.0))
    own = target.model.lm_head(context.features["hidden_states"][1]).double().softmax(-1).detach()
    for probs in draft.probs:
        torch.testing.assert_close(probs, own, rtol=1e-4, atol=1e-5)
