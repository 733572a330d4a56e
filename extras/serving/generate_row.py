"""One text of transformers' `generate`, with its logits processors and stopping criteria."""

from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Float
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
from outrider.extras.serving.generate_call import Call

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

    Raises:
        ConfigError: a processor can't be applied to the tokens of a draft.
    """
    for processor in processors:
        if isinstance(processor, STATEFUL):
            raise ConfigError(
                f"logits processor {type(processor).__name__}: expected one that depends on the"
                " text alone, it keeps a state from token to token"
            )
    rest, settings = LogitsProcessorList(processors), dict[str, Any]()
    for kind, setting in reversed(WARPERS) if sample else ():
        if rest and type(rest[-1]) is kind and _has_defaults(rest[-1]):
            settings[setting] = getattr(rest.pop(), setting)
    return rest, Sampling(**({"temperature": 1.0 if sample else 0.0} | settings))


def _has_defaults(warper: Any) -> bool:
    floor = getattr(warper, "filter_value", float("-inf"))
    return floor == float("-inf") and getattr(warper, "min_tokens_to_keep", 1) == 1


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
        self.eos: frozenset[int] = frozenset[int]().union(
            *(
                criterion.eos_token_id.tolist()
                for criterion in call.criteria
                if hasattr(criterion, "eos_token_id")
            )
        )
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
