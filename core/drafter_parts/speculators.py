"""The config of an EAGLE-3 network as the speculators library writes it, for vLLM to load."""

from pathlib import Path
from typing import Any

from outrider.contract.target import Target
from outrider.drafter_parts.layer import LayerConfig

VERSION = "0.3.0"
"""The version of the library whose layout this is."""


def config(
    target: Target, layer: LayerConfig, vocabulary: int, states: list[int]
) -> dict[str, Any]:
    """Returns the contents of `config.json`.

    layer: the sizes of the decoder layer.
    vocabulary: the number of tokens that the network knows.
    states: the hidden states that it reads, each given by the number of target layers below it.
    """
    model = target.model.config.get_text_config()
    # Others can use a hub id, but only the name of a local folder.
    name = str(getattr(target.model.config, "_name_or_path", "") or "")
    name = Path(name).name if Path(name).is_dir() else name
    decoder = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 1,
        "hidden_size": layer.hidden_size,
        "intermediate_size": layer.intermediate_size,
        "num_attention_heads": layer.num_attention_heads,
        "num_key_value_heads": layer.num_key_value_heads,
        "head_dim": layer.head_dim,
        "rms_norm_eps": layer.rms_norm_eps,
        "rope_theta": layer.rope_theta,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "vocab_size": target.vocab_size,
        "max_position_embeddings": getattr(model, "max_position_embeddings", None) or 2048,
    }
    proposal = {"proposal_type": "greedy", "speculative_tokens": 4}
    return {
        "speculators_model_type": "eagle3",
        "speculators_version": VERSION,
        "architectures": ["Eagle3Speculator"],
        "transformer_layer_config": decoder,
        "draft_vocab_size": vocabulary,
        "target_hidden_size": int(model.hidden_size),
        "eagle_aux_hidden_state_layer_ids": states,
        "speculators_config": {
            "algorithm": "eagle3",
            "proposal_methods": [proposal],
            "default_proposal_method": "greedy",
            "verifier": {
                "name_or_path": name,
                "architectures": list(getattr(target.model.config, "architectures", None) or ()),
            },
        },
    }
