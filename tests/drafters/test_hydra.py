"""Hydra: the published files, and heads that read the tokens drafted before them."""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from tiny.drafters import bound
from tiny.published import PublishedNetwork, Refused, hidden, part_of
from torch.nn.functional import linear, silu
from transformers import LlamaConfig, LlamaModel

from outrider import Sampling
from outrider.drafters.hydra import Hydra, HydraNetwork
from outrider.drafters.parts.networks.trained import StagedDrafter
from outrider.targets.transformers import TransformersTarget
from outrider.testing import parametrize_with_checks
from outrider.testing.tiny_targets import context_after, write_draft

PLACES = {"mlp": (0, 1, ""), "prefix-mlp": (1, 3, ".1")}
"""Where the two blocks and the matrix of a head stand; dropouts stand before those of Hydra++."""


def prefix_layer(model: Any) -> Any:
    """Returns transformers' own Llama with one layer, as Hydra++ has before its heads."""
    return LlamaModel(LlamaConfig(**model.config.to_dict() | {"num_hidden_layers": 1})).eval()


class TestPublished(PublishedNetwork):
    """Three heads of two blocks, and with the layer of Hydra++, Llama's with a norm."""

    drafter, network, longest, file = Hydra, HydraNetwork, 3, "hydra_lm_head.pt"
    variants = ("mlp", "prefix-mlp")
    refused: ClassVar[Refused] = {
        "grounded_heads=False: expected True": ({"grounded_heads": False}, {}),
    }

    def layout(self, model: Any, variant: Any) -> Any:
        tensors = {}

        def add(name: str, *shape: int) -> None:
            tensors[f"{name}.weight"] = torch.randn(*shape) / 4
            tensors[f"{name}.bias"] = torch.randn(shape[0])

        for head in range(3):
            first, second, matrix = PLACES[variant]
            add(f"hydra_mlp.{head}.{first}.linear", 16, 16 * (head + 2))
            add(f"hydra_mlp.{head}.{first}.res_connection", 16, 16 * (head + 2))
            add(f"hydra_mlp.{head}.{second}.linear", 16, 16)
            add(f"hydra_lm_head.{head}{matrix}", 31, 16)
        if variant != "mlp":
            layer = prefix_layer(model)
            for parameter in layer.parameters():
                torch.nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.3)
            for name, rows in layer.state_dict().items():
                tensors[f"prefix_embeding_layer.{name}"] = rows
        config = {"hydra_num_heads": 3, "hydra_num_layers": 2, "hydra_head_arch": variant}
        return config | {"grounded_heads": True, "hidden_size": 16, "vocab_size": 31}, tensors

    def saved(self, tensors: Any) -> Any:
        """Hydra++'s layer has embeddings that it does not read."""
        return {name: rows for name, rows in tensors.items() if "embed_tokens" not in name}

    def reference(self, model: Any, w: Any, text: Any, drafted: Any, variant: Any) -> Any:
        def part(name: str, x: torch.Tensor) -> torch.Tensor:
            return linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

        words, probs = model.get_input_embeddings().weight, []
        states, (first, second, matrix) = hidden(model, text), PLACES[variant]
        if variant != "mlp":
            layer = prefix_layer(model)
            layer.load_state_dict(part_of(w, "prefix_embeding_layer."))
            states = layer(inputs_embeds=states).last_hidden_state
        inputs = [states[0, -1], words[text[-1]]]
        for head, token in enumerate(drafted):
            x = torch.cat(inputs)
            inner = silu(part(f"hydra_mlp.{head}.{first}.linear", x))
            x = part(f"hydra_mlp.{head}.{first}.res_connection", x) + inner
            x = x + silu(part(f"hydra_mlp.{head}.{second}.linear", x))
            probs.append(part(f"hydra_lm_head.{head}{matrix}", x).softmax(-1))
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


def layered() -> Hydra:
    """Returns a drafter with the random layer of Hydra++."""
    drafter = Hydra("untrained")
    StagedDrafter.__init__(drafter, HydraNetwork, "untrained", None, kind="prefix-mlp")
    return drafter


@parametrize_with_checks([layered])
def test_hydra_plus_plus_keeps_the_contract(
    make: Callable[[], Any], check: Callable[[Any], None]
) -> None:
    check(make)
