"""EAGLE: SafeAILab's files."""

from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from tiny.published import (
    PublishedNetwork,
    Refused,
    causal_mask,
    fed_back,
    hidden,
    part_of,
    sizes_of,
)
from torch.nn.functional import linear
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from outrider.drafters.eagle import Eagle, EagleNetwork
from outrider.targets.transformers import TransformersTarget


class TestPublished(PublishedNetwork):
    """SafeAILab's layer, with and without a bias of the fusion."""

    drafter, network, file = Eagle, EagleNetwork, "pytorch_model.bin"
    variants, sizes = (True, False), MappingProxyType({"head_dim": 8})
    refused: ClassVar[Refused] = {
        "its hidden_size is 8, the target's": ({"hidden_size": 8}, {}),
        "rope_type='dynamic'": ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, {}),
        r"tensor fc\.bias is missing": ({}, {"fc.bias": None}),
    }

    def layer(self, model: Any) -> LlamaDecoderLayer:
        layer = LlamaDecoderLayer(model.config, 0)
        layer.input_layernorm = torch.nn.Identity()
        return layer

    def layout(self, model: Any, variant: Any) -> Any:
        fc = torch.nn.Linear(32, 16, bias=variant)
        parts = {"layers.0": self.layer(model), "fc": fc}
        tensors = {
            f"{k}.{n}": rows for k, part in parts.items() for n, rows in part.state_dict().items()
        }
        tensors["embed_tokens.weight"] = model.model.embed_tokens.weight
        return sizes_of(model) | ({} if variant else {"bias": False}), tensors

    def saved(self, tensors: Any) -> Any:
        return {name: rows for name, rows in tensors.items() if name != "embed_tokens.weight"}

    def reference(self, model: Any, w: Any, text: Any, drafted: Any, variant: Any) -> Any:
        layer = self.layer(model)
        layer.load_state_dict(part_of(w, "layers.0."))

        def step(states: Any, tokens: Any) -> Any:
            both = torch.cat([model.get_input_embeddings()(tokens), states], dim=-1)
            x = linear(both, w["fc.weight"], w.get("fc.bias"))
            count = tokens.shape[1]
            turn = LlamaRotaryEmbedding(model.config)(x, torch.arange(count)[None])
            after = layer(x, attention_mask=causal_mask(count), position_embeddings=turn)
            return after, model.lm_head(after)

        return fed_back(hidden(model, text), text, drafted, step)

    def test_positions_are_the_targets_only_in_a_config_without_sizes(
        self, llama: Any, tmp_path: Path
    ) -> None:
        target = TransformersTarget(llama(head_dim=8, rope_theta=500.0))
        self.folder(tmp_path, target, True)
        read = EagleNetwork.read_checkpoint
        assert read(tmp_path, target).self_attn.config.rope_theta == 10_000.0
        (tmp_path / "config.json").write_text('{"hidden_size": 16, "vocab_size": 31}')
        assert read(tmp_path, target).self_attn.config.rope_theta == 500.0
