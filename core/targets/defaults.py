"""Defaults: what a model's own generation config sets that changes its distributions."""

from typing import Any

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "repetition_penalty": (1.0,),
    "encoder_repetition_penalty": (1.0,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "bad_words_ids": ([],),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
    "sequence_bias": ([], {}),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "exponential_decay_length_penalty": (),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "stop_strings": ([], ""),
    "guidance_scale": (1.0,),
}
"""By the name of a default, the values that change nothing, besides None."""


def own_defaults(generation_config: Any) -> dict[str, Any]:
    """Returns a model's defaults that transformers' `generate` obeys and decoding here does not.

    generation_config: that of transformers, or None.
    """
    values = {name: getattr(generation_config, name, None) for name in NEUTRAL}
    return {
        name: value
        for name, value in values.items()
        if value is not None and value not in NEUTRAL[name]
    }
