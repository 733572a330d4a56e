"""P-EAGLE: the published layers, in the layout of the speculators library."""

from pathlib import Path
from typing import Any, ClassVar

import torch
from tiny.checkpoints import write
from tiny.drafters import bound
from tiny.parts import held
from tiny.published import TEXT, PublishedNetwork, Refused, causal_mask, hidden
from torch import nn
from transformers import LlamaConfig, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer, Qwen3RMSNorm

from outrider.drafters.parts import checkpoint
from outrider.drafters.peagle.drafter import PEagle, PEagleNetwork
from outrider.testing.tiny_targets import draft_after

MASK = 12
IDS = torch.arange(0, 24, 2)
LAYERS = {"llama": (LlamaConfig, LlamaDecoderLayer), "qwen3": (Qwen3Config, Qwen3DecoderLayer)}


class Published(nn.Module):
    """The network of the speculators library, of transformers' parts."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        config_class, layer_class = LAYERS[kind]
        self.config = config_class(
            vocab_size=31,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=6,
            rms_norm_eps=1e-5,
            attn_implementation="eager",
            rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        )
        self.layers = nn.ModuleList([layer_class(self.config, layer) for layer in range(2)])
        first: Any = self.layers[0]
        for name in ("q_proj", "k_proj", "v_proj"):
            width = getattr(first.self_attn, name).out_features
            setattr(first.self_attn, name, nn.Linear(32, width, bias=False))
        first.hidden_norm, self.norm = Qwen3RMSNorm(16, 1e-5), Qwen3RMSNorm(16, 1e-5)
        self.fc, self.lm_head = nn.Linear(48, 16, bias=False), nn.Linear(16, 12, bias=False)
        self.embed_tokens = nn.Embedding(31, 16)
        self.mask_hidden = nn.Parameter(torch.randn(1, 1, 48))
        for name, tensor in self.named_parameters():
            if "norm" in name:
                nn.init.uniform_(tensor)

    def probs_behind(self, model: Any, text: list[int], count: int, norm_first: bool) -> Any:
        """Returns the distributions behind a text, from one pass over all of it."""
        masks = self.mask_hidden.expand(1, count - 1, -1)
        states = self.fc(torch.cat([hidden(model, text, 1, 2, 4), masks], dim=1))
        words = self.embed_tokens(torch.tensor([[*text[1:], *[MASK] * (count - 1)]]))
        first: Any = self.layers[0]
        normed, rows = first.hidden_norm(states), states.shape[1]
        turn = LlamaRotaryEmbedding(self.config)(states, torch.arange(rows)[None])
        fused = torch.cat([first.input_layernorm(words), normed], dim=-1)
        mask = causal_mask(rows)
        mixed = first.self_attn(fused, position_embeddings=turn, attention_mask=mask)[0]
        x = (normed if norm_first else states) + mixed
        x = x + first.mlp(first.post_attention_layernorm(x))
        x = self.layers[1](x, position_embeddings=turn, attention_mask=mask)
        return self.lm_head(self.norm(x))[0, -count:].softmax(-1)


class TestPublished(PublishedNetwork):
    """Networks with 12 tokens: the type of their layers, and whether a norm comes first."""

    drafter, network = PEagle, PEagleNetwork
    variants = (("llama", True), ("qwen3", False))
    refused: ClassVar[Refused] = {
        r"mask_token_id=\[\]: expected a whole number": ({"mask_token_id": None}, {}),
        "mask_token_id=31: expected one of the target's tokens": ({"mask_token_id": 31}, {}),
    }

    def layout(self, model: Any, variant: Any) -> Any:
        network = Published(variant[0])
        own = {"d2t": IDS - torch.arange(12), "t2d": torch.isin(torch.arange(31), IDS)}
        config = {
            "speculators_model_type": "peagle",
            "transformer_layer_config": network.config.to_diff_dict(),
            "draft_vocab_size": 12,
            "norm_before_residual": variant[1],
            "eagle_aux_hidden_state_layer_ids": [1, 2, 4],
            "mask_token_id": MASK,
        }
        return config, own | {"verifier_norm.weight": torch.rand(16)} | network.state_dict()

    def saved(self, tensors: Any) -> Any:
        return {name: rows for name, rows in tensors.items() if name != "verifier_norm.weight"}

    def reference(self, model: Any, w: Any, text: Any, drafted: Any, variant: Any) -> Any:
        network = Published(variant[0]).eval()
        network.load_state_dict({name: w[name] for name in network.state_dict()})
        known = network.probs_behind(model, text, len(drafted), variant[1])
        return torch.zeros(len(drafted), 31).index_copy(1, IDS, known)

    def test_only_new_features_are_read(self, llama: Any, tmp_path: Path) -> None:
        target = self.target(llama)
        self.folder(tmp_path, target, ("llama", True))
        drafter, passes = bound(PEagle(str(tmp_path)), target), list[int]()
        network = held(drafter, PEagleNetwork)
        network.fc.register_forward_pre_hook(lambda _, x: passes.append(x[0].shape[1]))
        for length, gamma in ((6, 4), (9, 3), (9, 1), (4, 4), (7, 2)):
            draft_after(drafter, target, TEXT[:length], gamma)
        # At least one position is read; every other product is of the mask.
        assert passes[::2] == [5, 3, 1, 1, 3]

    def test_other_names_of_the_same_settings_are_read(self, llama: Any, tmp_path: Path) -> None:
        target = self.target(llama)
        tensors = self.folder(tmp_path, target, ("llama", False))
        right = PEagleNetwork.read_checkpoint(tmp_path, target)
        tensors = checkpoint.replace_prefixes(tensors, {"layers.0.": "midlayer."})
        tensors["mask_hidden"] = tensors["mask_hidden"][0].clone()
        flat = Published("llama").config.to_dict() | {
            "ptd_token_id": MASK,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 3]},
        }
        again = PEagleNetwork.read_checkpoint(Path(write(tmp_path, flat, tensors)), target)
        assert again.config == right.config
        for name, tensor in right.state_dict().items():
            assert torch.equal(again.state_dict()[name], tensor)
