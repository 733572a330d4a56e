"""How small a model is: values by field, exceptions by model type, and variants."""

from typing import Any

VOCABULARY, WIDTH, HEADS, LAYERS = 64, 32, 4, 4
WINDOW = 8
LENGTH = 64
"""Positions: a prompt of 40 tokens and the 24 that follow it reach the very last one."""


def _all(names: str, value: Any) -> dict[str, Any]:
    return dict.fromkeys(names.split(), value)


BY_FIELD: dict[str, Any] = (
    _all("vocab_size src_vocab_size tgt_vocab_size vocab_size_per_layer_input", VOCABULARY)
    | _all("hidden_size d_model n_embd embed_dim dim dim_model emb_dim", WIDTH)
    | _all(
        "intermediate_size d_ff dim_ff d_inner n_inner dff ffn_dim encoder_ffn_dim decoder_ffn_dim"
        " ffn_hidden_size moe_intermediate_size shared_expert_intermediate_size"
        " expert_ffn_hidden_size intermediate_size_mlp",
        2 * WIDTH,
    )
    | _all(
        "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers"
        " num_encoder_layers num_decoder_layers",
        LAYERS,
    )
    | _all(
        "num_attention_heads num_heads n_head n_heads encoder_attention_heads"
        " decoder_attention_heads num_encoder_attention_heads num_decoder_attention_heads",
        HEADS,
    )
    | _all("num_key_value_heads n_head_kv", 2)
    | _all("head_dim d_kv kv_channels attention_head_dim dim_head global_head_dim", 8)
    | _all("max_position_embeddings n_positions n_ctx max_seq_len seq_length", LENGTH)
    | _all("sliding_window attention_chunk_size window_size", WINDOW)
    | _all("num_experts num_local_experts n_routed_experts moe_num_experts", 4)
    | _all("num_experts_per_tok moe_k moe_topk top_k_experts", 2)
    | _all("n_shared_experts n_group topk_group first_k_dense_replace", 1)
    | _all("q_lora_rank kv_lora_rank", 16)
    | _all("qk_rope_head_dim qk_nope_head_dim v_head_dim rotary_dim", 8)
    | _all("mamba_d_state mamba_d_conv ssm_state_size", 4)
    | _all("hidden_size_per_layer_input laurel_rank", 8)
    | {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2, "sep_token_id": 1}
    | {"decoder_start_token_id": VOCABULARY - 1, "is_decoder": True, "use_cache": True}
    | {"image_size": 16, "patch_size": 8}
)
"""What a field is set to, by its name, in every configuration that has one."""

ALTERNATING = {"layer_types": ["sliding_attention", "full_attention"] * 2}
_LATENT = {"num_key_value_heads": HEADS}
_SHARED_CACHE = ALTERNATING | {"num_kv_shared_layers": 2}
_LINEAR = {"layer_types": ["linear_attention", "full_attention"] * 2, "num_key_value_heads": HEADS}
_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_SCALED = {"logit_scale": 0.5}
_MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_expand": 2, "mamba_chunk_size": 8}
_BERT = {name: value for name, value in BY_FIELD.items() if name.endswith(("_id", "layers"))} | {
    **_all("vocab_size max_position_embeddings intermediate_size", VOCABULARY),
    "model_type": "bert",
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
}

BY_TYPE: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        (
            *("axk1", "axk2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "dots3_note"),
            *("dots3_note_text", "glm4_moe_lite", "glm_moe_dsa", "longcat_flash", "minicpm3"),
            "youtu",
        ),
        _LATENT,
    ),
    **dict.fromkeys(("gemma3_text", "t5gemma2_text", "t5gemma2_decoder"), ALTERNATING),
    **dict.fromkeys(("gemma3n_text", "gemma4_text", "gemma4_unified_text"), _SHARED_CACHE),
    "falcon_h1": {"mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_chunk_size": 8},
    "bamba": _MAMBA | {"attn_layer_indices": [1, 3]},
    "granitemoehybrid": _MAMBA | {"layer_types": ["mamba", "attention"] * 2},
    **dict.fromkeys(("cohere", "cohere2", "cohere2_moe"), _SCALED),
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "modernbert-decoder": {"local_attention": 2 * WINDOW},
    "bigbird_pegasus": {"attention_type": "original_full"},
    "big_bird": {"attention_type": "original_full"},
    "led": {"attention_window": WINDOW, "max_decoder_position_embeddings": LENGTH}
    | {"max_encoder_position_embeddings": LENGTH},
    "longt5": {"local_radius": 4, "global_block_size": 4},
    "cohere_compass_text": ALTERNATING
    | {"rope_parameters": dict.fromkeys(set(ALTERNATING["layer_types"]), _ROPE)},
    **dict.fromkeys(("kimi_linear", "bailing_hybrid"), _LINEAR),
    "zamba2": {"layers_block_type": ["mamba", "hybrid"] * 2, "n_mamba_heads": 4},
    "qwen4_exp_text": {"layer_types": ["full_attention"] * LAYERS},
    "recurrent_gemma": {"attention_window_size": WINDOW},
    "reformer": {"axial_pos_embds": False, "attn_layers": ["local", "lsh"] * 2, "num_buckets": 4}
    | {"local_attn_chunk_length": 8, "lsh_attn_chunk_length": 8, "attention_head_size": 8},
    "llama4_text": {"floor_scale": 8, "attn_scale": 0.5},
    "zaya": {"num_experts_per_tok": 1},
    "gemma3n_text": _SHARED_CACHE | {"activation_sparsity_pattern": [0.0] * LAYERS},
    "encoder-decoder": {
        "encoder": _BERT,
        "decoder": _BERT | {"is_decoder": True, "add_cross_attention": True},
    },
    "mamba2": {"num_heads": 8, "head_dim": 8, "state_size": 4, "n_groups": 1} | {"chunk_size": 8},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0}}
    | {"ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2}},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
    "roc_bert": {"pronunciation_vocab_size": 64, "shape_vocab_size": 64},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "doge": {"keep_window_size": 2 * LENGTH},
}
"""What a model type needs beside or instead."""

_LONG = {
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0] * 4,
        "long_factor": [2.0, 3.0, 4.0, 5.0],
        "original_max_position_embeddings": 48,
        "factor": 4.0,
        "short_mscale": 1.0,
        "long_mscale": 1.2,
    },
    "original_max_position_embeddings": 48,
}
"""The factors change while the text is written."""
_YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0}
_WINDOWS = {"use_sliding_window": True, "max_window_layers": 0, "sliding_window": WINDOW}

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert (both ways)": ("bert", {"is_decoder": False}),
    "falcon (ALiBi)": ("falcon", {"alibi": True}),
    "falcon (new decoder)": ("falcon", {"new_decoder_architecture": True}),
    "falcon (one layer norm)": ("falcon", {"parallel_attn": False, "bias": True}),
    "llama (LongRoPE)": ("llama", _LONG),
    "phi3 (LongRoPE)": ("phi3", _LONG | {"sliding_window": None}),
    "phimoe (LongRoPE)": ("phimoe", _LONG | {"sliding_window": None}),
    "llama (YaRN)": (
        "llama",
        {"rope_parameters": _YARN | {"original_max_position_embeddings": 16}},
    ),
    "mistral (no window)": ("mistral", {"sliding_window": None}),
    "opt (norm after)": ("opt", {"do_layer_norm_before": False, "word_embed_proj_dim": 16}),
    "bloom (residual after)": ("bloom", {"apply_residual_connection_post_layernorm": True}),
    "gpt2 (scaled by layer)": ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
    "gpt_bigcode (many heads)": ("gpt_bigcode", {"multi_query": False}),
    "t5 (gated)": ("t5", {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    **{
        f"{name} (windows)": (name, _WINDOWS | ALTERNATING)
        for name in ("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3", "dots1", "mellum")
    },
}
"""Rows beside the plain ones: a model type, and settings that change its masks or positions."""

_AUDIO = "its other half reads audio"
NOT_TEXT: dict[str, str] = {
    **dict.fromkeys(("musicgen", "musicgen_melody"), "it writes audio codes"),
    **dict.fromkeys(("gemma4_assistant", "gemma4_unified_assistant"), "it reads another's cache"),
    **dict.fromkeys(("voxtral_realtime", "nemo_speechlm", "vibevoice_asr"), _AUDIO),
    **dict.fromkeys(("granite_speech", "granite_speech_plus", "qwen3_asr"), _AUDIO),
}
"""Model types that are left out, and why."""
