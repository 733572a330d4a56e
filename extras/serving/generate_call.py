"""One call of transformers' `generate`: whether drafts allow it, and each of its texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    SynthIDTextWatermarkLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    UnbatchedClassifierFreeGuidanceLogitsProcessor,
)

from outrider.base.errors import ConfigError
from outrider.contract.constraint import Constraint
from outrider.contract.sampling import Sampling
from outrider.targets.passes.masks import longrope_window
from outrider.targets.passes.pass_input import CACHE_ARGUMENTS

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
        for fault in chain(_faults_of_inputs(self), _faults_of_outputs(self)):
            raise ConfigError(fault)


def _faults_of_inputs(call: Call) -> Iterator[str]:
    """Yields what drafts rule out of the model, its inputs and the loop that is asked for."""
    beams = call.config.num_beams or 1
    if call.model.config.is_encoder_decoder:
        yield f"model {type(call.model).__name__}: expected a decoder-only one"
    if beams > 1:
        yield f"num_beams={beams}: expected 1"
    for name in CACHE_ARGUMENTS:
        if getattr(call.inputs.get(name), "_is_user_defined", False):
            yield f"{name}: expected none, a text is read from its beginning"
    window = longrope_window(call.model)
    if window is not None and (longest := int(call.criteria.max_length)) > window:
        yield f"max_length={longest}: expected at most {window}, where LongRoPE's factors change"
    for name in sorted(call.inputs.keys() - HANDLED):
        # Models that also read images get an empty dict of them with a text.
        if call.inputs[name] is not None and call.inputs[name] != {}:
            yield f"{name}: expected none, the model takes only tokens"
    positions, mask = call.inputs.get("position_ids"), call.mask
    expected = (mask.long().cumsum(-1) - 1).masked_fill(mask == 0, 0)
    if positions is not None and not torch.equal(positions.expand_as(expected), expected):
        yield "position_ids: expected none, or those of the attention mask"


def _faults_of_outputs(call: Call) -> Iterator[str]:
    """Yields what drafts rule out of the answer's form."""
    asks_for_states = call.config.output_attentions or call.config.output_hidden_states
    if call.returns_dict and asks_for_states:
        yield "output_attentions, output_hidden_states: expected false, passes hold drafts too"
    if call.rows > 1 and call.returns_logits:
        rows = f"output_scores, output_logits with {call.rows} rows"
        yield f"{rows}: expected one, rows end at different lengths"
    if call.rows > 1 and call.streamer is not None:
        yield f"streamer with {call.rows} rows: expected one"


WARPERS = (
    (TemperatureLogitsWarper, "temperature"),
    (TopKLogitsWarper, "top_k"),
    (TopPLogitsWarper, "top_p"),
    (MinPLogitsWarper, "min_p"),
)
"""The processors that `Sampling` replaces, in the order in which both apply them."""

STATEFUL = (UnbatchedClassifierFreeGuidanceLogitsProcessor, SynthIDTextWatermarkLogitsProcessor)
"""Processors that rely on being called once per token, always with the final text."""


def unwarped(processors: Any, sample: bool) -> tuple[LogitsProcessorList, Sampling]:
    """Returns the processors without the trailing warpers, and a `Sampling` equal to those warpers.

    The drafter's distributions are warped with that `Sampling`, as the target's are.

    Raises `ConfigError` if a processor can't be applied to the tokens of a draft.
    """
    for processor in processors:
        if isinstance(processor, STATEFUL):
            raise ConfigError(
                f"logits processor {type(processor).__name__}: expected one that depends on the"
                " text alone, it keeps a state from token to token"
            )
    rest, settings = LogitsProcessorList(processors), dict[str, Any]()
    for kind, setting in reversed(WARPERS) if sample else ():
        last: Any = rest[-1] if rest else None
        floor = getattr(last, "filter_value", float("-inf"))
        has_defaults = floor == float("-inf") and getattr(last, "min_tokens_to_keep", 1) == 1
        if type(last) is kind and has_defaults:
            settings[setting] = getattr(rest.pop(), setting)
    return rest, Sampling(**({"temperature": 1.0 if sample else 0.0} | settings))


@final
class Request(Constraint):
    """One row of a call's batch.

    prompt: its ids, without padding.
    eos: the ids that end it, from the stopping criteria.
    scores, raw_logits: for each token, the logits after and before all processors, each
        [1, vocab]; filled only if the call returns them.

    call: the call of `generate`. number: the index of the row in its batch.
    rest: the processors to apply to the logits; the run's `Sampling` stands for the others.
    """

    def __init__(self, call: Call, number: int, rest: LogitsProcessorList) -> None:
        ids = call.input_ids[number]
        self.prompt: list[int] = ids[call.mask[number] != 0].tolist()
        ends = (it.eos_token_id.tolist() for it in call.criteria if hasattr(it, "eos_token_id"))
        self.eos: frozenset[int] = frozenset(chain.from_iterable(ends))
        self.scores: tuple[Float[Tensor, "1 vocab"], ...] = ()
        self.raw_logits: tuple[Float[Tensor, "1 vocab"], ...] = ()
        self._call, self._number, self._rest = call, number, rest
        self._padded_prompt: list[int] = ids.tolist()
        self._round: dict[tuple[int, ...], Tensor] = {}  # raw logits of this round, by text

    def logits(self, ids: Sequence[int], logits: Float[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
        if self._call.returns_logits:
            if len(ids) == len(self.prompt) + len(self.raw_logits):  # a round begins
                self._round.clear()
            self._round[tuple(ids)] = logits
        return self._processed(self._rest, ids, logits) if self._rest else logits

    def ends(self, ids: Sequence[int]) -> bool:
        keep = self._call.returns_logits
        if keep:
            before = ids[:-1]
            logits = self._round[tuple(before)]
            self.raw_logits += (logits.float()[None],)
            self.scores += (self._processed(self._call.processors, before, logits)[None],)
        return bool(self._call.criteria(self._text(ids), self.scores if keep else None)[0])

    def _processed(self, processors: Any, ids: Sequence[int], logits: Tensor) -> Tensor:
        # Some processors tell the rows of a batch apart by their index, so the batch is filled up.
        rows = self._call.rows
        logits = logits if logits.dtype == torch.float64 else logits.float()
        batch = logits.expand(rows, -1).clone()
        processed: Tensor = processors(self._text(ids).expand(rows, -1), batch)
        return processed[self._number]

    def _text(self, ids: Sequence[int]) -> Tensor:
        """Returns a text as `generate` holds it, with the padding in front of its prompt."""
        text = [*self._padded_prompt, *ids[len(self.prompt) :]]
        return torch.tensor([text], device=self._call.input_ids.device)
