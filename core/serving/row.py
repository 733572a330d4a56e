"""Row: a text of transformers' `generate`, constrained by its logits processors and stopping criteria."""

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

from outrider.contract.constraint import Constraint
from outrider.contract.sampling import Sampling
from outrider.errors import ConfigError

WARPERS = (
    (TemperatureLogitsWarper, "temperature"),
    (TopKLogitsWarper, "top_k"),
    (TopPLogitsWarper, "top_p"),
    (MinPLogitsWarper, "min_p"),
)
"""What `Sampling` does too, in the order in which both do it."""

STATEFUL = (UnbatchedClassifierFreeGuidanceLogitsProcessor, SynthIDTextWatermarkLogitsProcessor)
"""Processors that count on being called once a token, with the text that is then kept."""


def unwarped(processors: Any, sample: bool) -> tuple[LogitsProcessorList, Sampling]:
    """Returns the processors without those at the end that a `Sampling` stands for, and that one.

    The drafter's distributions are warped with it as the target's are.

    Raises:
        ConfigError: a processor can't be asked of the places of a draft.
    """
    for each in processors:
        if isinstance(each, STATEFUL):
            raise ConfigError(
                f"logits processor {type(each).__name__}: expected one that depends on the text"
                " alone, it keeps a state from token to token"
            )
    rest, found = LogitsProcessorList(processors), dict[str, Any]()
    for kind, field in reversed(WARPERS) if sample else ():
        if rest and type(rest[-1]) is kind and _usual(rest[-1]):
            found[field] = getattr(rest.pop(), field)
    return rest, Sampling(**({"temperature": 1.0 if sample else 0.0} | found))


def _usual(warper: Any) -> bool:
    floor = getattr(warper, "filter_value", float("-inf"))
    return floor == float("-inf") and getattr(warper, "min_tokens_to_keep", 1) == 1


@final
class Row(Constraint):
    """One row of `generate`'s batch.

    prompt: its ids, without padding.
    rest, processors: those to constraint the logits with, and all of them.
    keeps: whether to keep the place of each token in `scores` and `kept`: what the processors
        made of its logits, and those logits, each [1, vocab].
    """

    def __init__(
        self,
        number: int,
        input_ids: Tensor,
        mask: Tensor,
        rest: Any,
        processors: Any,
        criteria: Any,
        keeps: bool,
    ) -> None:
        self.prompt: list[int] = input_ids[number][mask[number] != 0].tolist()
        self.eos = frozenset[int]().union(
            *(each.eos_token_id.tolist() for each in criteria if hasattr(each, "eos_token_id"))
        )
        self.scores: tuple[Float[Tensor, "1 vocab"], ...] = ()
        self.kept: tuple[Float[Tensor, "1 vocab"], ...] = ()
        self._number, self._count = number, len(input_ids)
        self._columns: list[int] = input_ids[number].tolist()
        self._device = input_ids.device
        self._rest, self._processors, self._criteria = rest, processors, criteria
        self._keeps = keeps
        self._round: dict[tuple[int, ...], Tensor] = {}

    def logits(self, ids: Sequence[int], logits: Float[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
        if self._keeps:
            if len(ids) == len(self.prompt) + len(self.kept):  # where a round begins
                self._round.clear()
            self._round[tuple(ids)] = logits
        return self._processed(self._rest, ids, logits) if self._rest else logits

    def ends(self, ids: Sequence[int]) -> bool:
        if self._keeps:
            before = ids[:-1]
            logits = self._round[tuple(before)]
            self.kept += (logits.float()[None],)
            self.scores += (self._processed(self._processors, before, logits)[None],)
        return bool(self._criteria(self._text(ids), self.scores if self._keeps else None)[0])

    def _processed(self, processors: Any, ids: Sequence[int], logits: Tensor) -> Tensor:
        # Some processors know each row of the batch by its number; the other rows are filled in.
        logits = logits if logits.dtype == torch.float64 else logits.float()
        everyone = logits.expand(self._count, -1).clone()
        found: Tensor = processors(self._text(ids).expand(self._count, -1), everyone)
        return found[self._number]

    def _text(self, ids: Sequence[int]) -> Tensor:
        """Returns a text as `generate` has it, with the padding before its prompt."""
        text = [*self._columns, *ids[len(self.prompt) :]]
        return torch.tensor([text], device=self._device)
