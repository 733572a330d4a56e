"""P-EAGLE: conformance, the published layers, and the layout of the speculators library."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.checkpoints import write
from tiny.parts import held
from torch import nn
from transformers import LlamaConfig, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer, Qwen3RMSNorm

from outrider import ConfigError, Sampling
from outrider.drafters.parts import checkpoint
from outrider.drafters.peagle.drafter import PEagle
from outrider.drafters.peagle.network import PEagleNetwork
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import draft_after

SAMPLED = Sampling(temperature=1.0)
TEXT = [3, 7, 7, 2, 9, 4, 11, 5, 6]
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
        self.norm_first = False
        for name, tensor in self.named_parameters():
            if "norm" in name:
                nn.init.uniform_(tensor)

    @torch.no_grad()
    def probs_behind(self, target: Any, text: list[int], count: int) -> Any:
        """Returns the distributions behind a text, from one pass over all of it."""
        known = torch.tensor([text[:-1]])
        states = target.model(known, output_hidden_states=True).hidden_states
        read = torch.cat([states[layer] for layer in (1, 2, 4)], dim=-1)
        states = self.fc(torch.cat([read, self.mask_hidden.expand(1, count - 1, -1)], dim=1))
        words = self.embed_tokens(torch.tensor([[*text[1:], *[MASK] * (count - 1)]]))
        first: Any = self.layers[0]
        normed, rows = first.hidden_norm(states), states.shape[1]
        mask = torch.full((rows, rows), float("-inf")).triu(1)[None, None]
        turn = LlamaRotaryEmbedding(self.config)(states, torch.arange(rows)[None])
        fused = torch.cat([first.input_layernorm(words), normed], dim=-1)
        mixed = first.self_attn(fused, position_embeddings=turn, attention_mask=mask)[0]
        x = (normed if self.norm_first else states) + mixed
        x = x + first.mlp(first.post_attention_layernorm(x))
        x = self.layers[1](x, position_embeddings=turn, attention_mask=mask)
        return self.lm_head(self.norm(x))[0, -count:].softmax(-1)

    def tensors(self) -> dict[str, Any]:
        own = {"d2t": IDS - torch.arange(12), "t2d": torch.isin(torch.arange(31), IDS)}
        return own | {"verifier_norm.weight": torch.rand(16)} | self.state_dict()


@pytest.fixture
def target(deep_llama: Any) -> Any:
    return TransformersTarget(deep_llama())


@pytest.fixture
def network() -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return Published("llama").eval()


def entries(network: Any, **changes: Any) -> dict[str, Any]:
    config = {
        "speculators_model_type": "peagle",
        "transformer_layer_config": network.config.to_diff_dict(),
        "draft_vocab_size": 12,
        "norm_before_residual": network.norm_first,
        "eagle_aux_hidden_state_layer_ids": [1, 2, 4],
        "mask_token_id": MASK,
    }
    return config | changes


@pytest.mark.parametrize(("kind", "norm_first"), [("llama", True), ("qwen3", False)])
def test_a_draft_is_that_of_the_published_network(
    kind: str, norm_first: bool, target: Any, tmp_path: Path
) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        network = Published(kind).eval()
    network.norm_first = norm_first
    drafter = PEagle(write(tmp_path, entries(network), network.tensors()))
    assert drafter.needs == {"model", *(f"hidden_states.{layer}" for layer in (1, 2, 4))}
    drafter.bind(target)
    passes: list[int] = []
    held(drafter, PEagleNetwork).fc.register_forward_pre_hook(
        lambda _, x: passes.append(x[0].shape[1])
    )
    for length, gamma in ((6, 4), (9, 3), (9, 1), (4, 4), (7, 2)):  # on, again, back, elsewhere
        text = TEXT[:length]
        draft = draft_after(drafter, target, text, gamma, seed=length)
        right = network.probs_behind(target, text, gamma)
        assert len(draft) == gamma
        for probs, exact in zip(draft.probs, right, strict=True):
            torch.testing.assert_close(probs[IDS], exact.double(), rtol=1e-4, atol=1e-5)
            assert probs[1::2].sum() == 0
    # Only what is new is read, and at least one position; every other product is of the mask.
    assert passes[::2] == [5, 3, 1, 1, 3]


def test_other_names_of_the_same_settings_are_read(
    target: Any, network: Any, tmp_path: Path
) -> None:
    right = PEagleNetwork.read_checkpoint(
        Path(write(tmp_path, entries(network), network.tensors())), target
    )
    tensors = checkpoint.replace_prefixes(network.tensors(), {"layers.0.": "midlayer."})
    tensors["mask_hidden"] = tensors["mask_hidden"][0].clone()
    flat = network.config.to_dict() | {
        "ptd_token_id": MASK,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 3]},
    }
    again = PEagleNetwork.read_checkpoint(Path(write(tmp_path, flat, tensors)), target)
    assert again.config == right.config
    for name, tensor in right.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)


def test_a_round_trip(target: Any, network: Any, tmp_path: Path) -> None:
    folder = Path(write(tmp_path, entries(network), network.tensors()))
    own = PEagleNetwork.read_checkpoint(folder, target)
    own.save_checkpoint(tmp_path / "again", target)
    written = checkpoint.find_tensors(tmp_path / "again")[1]
    assert set(written) == set(network.tensors()) - {"verifier_norm.weight"}
    again = PEagleNetwork.read_checkpoint(tmp_path / "again", target)
    assert again.config == own.config
    for name, tensor in own.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor.half().float())
    assert again.vocabulary.ids is not None and torch.equal(again.vocabulary.ids, IDS)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"mask_token_id": None}, r"mask_token_id=\[\]: expected a whole number"),
        ({"mask_token_id": 31}, r"mask_token_id=31: expected one of the target's tokens"),
        ({"norm_output": True}, "norm_output=True: expected False"),
    ],
)
def test_other_networks_are_refused(
    changes: Any, line: str, network: Any, target: Any, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=line):
        PEagle(write(tmp_path, entries(network, **changes), network.tensors())).bind(target)
