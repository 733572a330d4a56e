"""What one call of transformers' `generate` asks for, and whether drafts allow it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Int
from torch import Tensor

from outrider.base.errors import ConfigError
from outrider.targets.passes.forward import CACHE_ARGUMENTS
from outrider.targets.passes.windows import longrope_window

HANDLED = frozenset({"attention_mask", "position_ids", "logits_to_keep", "use_cache"})
HANDLED |= {"output_attentions", "output_hidden_states", *CACHE_ARGUMENTS}
"""Inputs of the model that are either honoured or refused by a check of their own."""


OVERRULED = (
    "custom_generate",
    "penalty_alpha",
    "dola_layers",
    "assistant_model",
    "assistant_tokenizer",
    "prompt_lookup_num_tokens",
    "max_matching_ngram_size",
    "assistant_early_exit",
    "use_mtp",
    "speculation_type",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "assistant_confidence_threshold",
    "assistant_ensemble_weight",
    "assistant_lookbehind",
    "target_lookbehind",
    "use_cache",
    "prefill_chunk_size",
    "cache_implementation",
    "cache_config",
    "max_cache_len",
    "compile_config",
)
"""Settings of `generate` for its loop, drafts and caches, which are a drafter's and a target's."""

NEUTRAL = {"use_cache": True}
"""Values that overrule nothing, beside None and False."""


def overruled(options: Mapping[str, Any], config: Any) -> list[str]:
    """Returns the settings of a call that have no effect, each a name or `name=value`.

    options: the call's keyword arguments. config: the `GenerationConfig` that they come before.
    """
    found = {name: options.get(name, getattr(config, name, None)) for name in OVERRULED}
    return [
        f"{name}={value!r}" if isinstance(value, (bool, int, float, str)) else name
        for name, value in found.items()
        if value is not None and value is not NEUTRAL.get(name, False)
    ]


@final
@dataclass(frozen=True, slots=True)
class Call:
    """What `generate` hands to the loop that it calls.

    input_ids: the prompts, padded on the left.
    processors, criteria: its lists of logits processors and stopping criteria.
    config: its `GenerationConfig`.
    inputs: everything else that it would pass to the model.
    """

    model: Any
    input_ids: Int[Tensor, "rows width"]
    processors: Any
    criteria: Any
    config: Any
    inputs: Mapping[str, Any]
    streamer: Any = None

    @property
    def rows(self) -> int:
        """Returns the number of texts to write."""
        return len(self.input_ids)

    @property
    def mask(self) -> Int[Tensor, "rows width"]:
        """Returns the attention mask: 0 for padding. Without one, there is no padding."""
        mask = self.inputs.get("attention_mask")
        return torch.ones_like(self.input_ids) if mask is None else mask

    @property
    def max_new_tokens(self) -> int:
        """Returns how many tokens the stopping criteria leave room for, at least 1."""
        return max(1, int(self.criteria.max_length) - self.input_ids.shape[1])

    @property
    def returns_dict(self) -> bool:
        """Returns whether the answer is an output object and not just the ids."""
        return bool(self.config.return_dict_in_generate)

    @property
    def returns_logits(self) -> bool:
        """Returns whether the answer holds the logits or the processed scores of each token."""
        return self.returns_dict and bool(self.config.output_scores or self.config.output_logits)

    def check(self) -> None:
        """Raises `ConfigError` if the call asks for something that drafts rule out."""
        for find_fault in CHECKS:
            if fault := find_fault(self):
                raise ConfigError(fault)


def _encoder(call: Call) -> str | None:
    if call.model.config.is_encoder_decoder:
        return f"model {type(call.model).__name__}: expected a decoder-only one"
    return None


def _beams(call: Call) -> str | None:
    beams = call.config.num_beams or 1
    return f"num_beams={beams}: expected 1 (there is outrider.extras.beams)" if beams > 1 else None


def _cache(call: Call) -> str | None:
    for name in CACHE_ARGUMENTS:
        if getattr(call.inputs.get(name), "_is_user_defined", False):
            return f"{name}: expected none, a text is read from its beginning"
    return None


def _longrope(call: Call) -> str | None:
    if (window := longrope_window(call.model)) is None:
        return None
    longest = int(call.criteria.max_length)
    if longest > window:
        return f"max_length={longest}: expected at most {window}, where LongRoPE's factors change"
    return None


def _unknown_inputs(call: Call) -> str | None:
    # Models that also read images get an empty dict of them with a text.
    unknown = sorted(
        name
        for name, value in call.inputs.items()
        if name not in HANDLED and value is not None and value != {}
    )
    return f"{unknown[0]}: expected none, the model takes only tokens" if unknown else None


def _positions(call: Call) -> str | None:
    positions, mask = call.inputs.get("position_ids"), call.mask
    if positions is None:
        return None
    expected = (mask.long().cumsum(-1) - 1).masked_fill(mask == 0, 0)
    if torch.equal(positions.expand_as(expected), expected):
        return None
    return "position_ids: expected none, or those of the attention mask"


def _states(call: Call) -> str | None:
    asks_for_states = call.config.output_attentions or call.config.output_hidden_states
    if call.returns_dict and asks_for_states:
        return "output_attentions, output_hidden_states: expected false, passes hold drafts too"
    return None


def _logits_of_rows(call: Call) -> str | None:
    if call.returns_logits and call.rows > 1:
        rows = f"output_scores, output_logits with {call.rows} rows"
        return f"{rows}: expected one, rows end at different lengths"
    return None


def _streamed_rows(call: Call) -> str | None:
    if call.streamer is not None and call.rows > 1:
        return f"streamer with {call.rows} rows: expected one"
    return None


CHECKS: tuple[Callable[[Call], str | None], ...] = (
    _encoder,
    _beams,
    _cache,
    _longrope,
    _unknown_inputs,
    _positions,
    _states,
    _logits_of_rows,
    _streamed_rows,
)
"""In the order in which they are made; each returns the line to raise, or None."""
