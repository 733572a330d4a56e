"""Defaults: what a model's own generation config asks of each text, as `generate` applies it."""

from collections.abc import Sequence
from typing import Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import TargetError, described, is_int
from outrider.base.pretrained import Model, Tokenizer
from outrider.contract.constraint import Constraint
from outrider.contract.context import Tokens
from outrider.decoding.text_stream import TextStream
from outrider.targets.passes.placement import home

Defaults = Literal["apply", "ignore"]
"""Whether a target obeys its model's generation config."""

LEFT_OUT: dict[str, tuple[Any, ...]] = {
    "guidance_scale": (1.0,),
    "watermarking_config": (),
    "num_beams": (1,),
    "penalty_alpha": (0,),
    "dola_layers": (),
    "max_time": (),
    "token_healing": (False,),
}
"""Defaults that take other passes than a text's own, chance of their own, or a clock, or that
change the prompt, with their neutral values as in `NEUTRAL`."""

NEUTRAL: dict[str, tuple[Any, ...]] = LEFT_OUT | {
    "sequence_bias": ([], {}),
    "encoder_repetition_penalty": (1.0,),
    "repetition_penalty": (1.0,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "bad_words_ids": ([],),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "exponential_decay_length_penalty": (),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
    "stop_strings": ([], ""),
}
"""By the name of a default, the values that change nothing, besides None."""

NEED_END = {"min_length", "min_new_tokens", "exponential_decay_length_penalty"}
"""Defaults that change nothing for a model without an end token."""

LEAST = {"min_length", "min_new_tokens", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size"}
"""Defaults that change nothing below 1, as -1 in some files."""


def own_defaults(generation_config: Any) -> dict[str, Any]:
    """Returns a model's defaults that change the text of transformers' `generate`.

    Those of sampling are not among them: temperature, top-k and the like are the run's.

    generation_config: that of transformers, or None.
    """
    values = {name: getattr(generation_config, name, None) for name in NEUTRAL}
    return {
        name: value
        for name, value in values.items()
        if value is not None and value not in NEUTRAL[name]
        if not (name in LEAST and is_int(value) and value < 1)
    }


@final
class OwnDefaults:
    """The defaults of a model, and which of them are in force.

    in_force, not_in_force: the value of each, by name.
    """

    def __init__(
        self, model: Model, tokenizer: Tokenizer | None, eos: frozenset[int], choice: Defaults
    ) -> None:
        left_out = set(NEUTRAL) if choice == "ignore" else set(LEFT_OUT)
        if tokenizer is None:
            left_out.add("stop_strings")
        found = own_defaults(model.generation_config)
        if not eos:
            found = {name: value for name, value in found.items() if name not in NEED_END}
        if model.config.is_encoder_decoder:  # the text begins with it, whatever the choice
            left_out.discard("forced_bos_token_id")
        self.in_force: dict[str, Any] = {it: found[it] for it in found if it not in left_out}
        self.not_in_force: dict[str, Any] = {it: found[it] for it in found if it in left_out}
        self._model, self._device, self._eos = model, home(model), sorted(eos)
        self._tokenizer = tokenizer

    def lines(self) -> list[str]:
        """Returns a line of what is in force, and one of what is not."""
        told = (("in force", self.in_force), ("not in force", self.not_in_force))
        return [
            f"defaults of the model {where}: "
            + ", ".join(f"{name}={value!r:.60}" for name, value in values.items())
            for where, values in told
            if values
        ]

    def of_text(
        self, ids: Sequence[int], source: Tokens | None, limit: int | None
    ) -> Constraint | None:
        """Returns the defaults in force for one text; None if there are none.

        The arguments are those of `Target.constraint`.
        """
        if not self.in_force:
            return None
        stops = self.in_force.get("stop_strings", ())
        stream = TextStream(self._tokenizer, stops, ids) if stops else None
        return TextDefaults(self._processors(ids, source, limit), stream, self._device)

    def _processors(self, ids: Sequence[int], source: Tokens | None, limit: int | None) -> Any:
        """Returns the processors that `generate` makes of these defaults."""
        import transformers

        start = len(ids) if source is None else 1  # a forced beginning is not the prompt's
        device: Any = self._device  # a word, by their annotations
        read = torch.tensor([[*(ids if source is None else source)]], device=device)
        try:
            make_config: Any = transformers.GenerationConfig
            config = make_config(**{**self.in_force, "max_length": limit})
            config.forced_eos_token_id = None if limit is None else config.forced_eos_token_id
            end = torch.tensor(self._eos, device=device) if self._eos else None
            config._eos_token_tensor = end
            make: Any = self._model._get_logits_processor  # of its class, as `generate` has it
            return make(config, start, read, device=device)
        except Exception as error:
            named = ", ".join(f"{name}={value!r:.60}" for name, value in self.in_force.items())
            line = f"default of the model {named} raised {described(error)}"
            raise TargetError(line) from error


@final
class TextDefaults(Constraint):
    """The defaults of one text: transformers' own processors, asked at each node of a draft.

    stream: finds the stop strings; None if there are none.
    """

    def __init__(self, processors: Any, stream: TextStream | None, device: torch.device) -> None:
        self._processors, self._stream, self._device = processors, stream, device

    def steering(self) -> Constraint:
        return self

    def logits(self, ids: Sequence[int], logits: Float[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
        changed = logits.clone() if logits.dtype == torch.float64 else logits.float()
        text = torch.tensor([[*ids]], device=self._device)
        row: Tensor = self._processors(text, changed[None].to(self._device))[0]
        return row.to(logits.device)

    def ends(self, ids: Sequence[int]) -> bool:
        return self._stream is not None and self._stream.push(ids[-1])[1]
