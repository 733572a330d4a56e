"""Hierarchy: a small model drafts, and is itself sped up by a faster drafter."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, final

from outrider.base.bounds import Count, checked
from outrider.base.calling import calling
from outrider.base.errors import ConfigError
from outrider.contract.composition import faster, redraw, written
from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.decoding.calls import call_drafter, opened
from outrider.drafters.small_lm import SmallLM
from outrider.plugins.registry import make
from outrider.targets.loading import Dtype


@final
class Hierarchy(Drafter):
    """Drafts what `small_lm` would, with the same distribution, in fewer passes of the small model.

    The faster drafter guesses `ahead` tokens, the small model scores them in one pass, and each
    guess is kept or redrawn so that the draft has exactly the small model's distribution. So the
    acceptance is the same, at a lower cost (staged speculative decoding, 2308.04623; the rule is
    that of 2211.17192). The target tests against the small model's distribution, never the
    faster drafter's.

    faster: the name of a drafter that writes chains, its settings as {drafter: NAME, ...}, or such
        a drafter.
    ahead: how many tokens it guesses at once.
    model, layers: of the small model, see `small_lm`.
    dtype, device, optimize, quantize, device_map, quantization_config, attn_implementation,
    trust_remote_code: of the small model, as for `small_lm`.

    Raises `ConfigError` for an `ahead` below 1, or a faster drafter that writes trees.
    """

    autoregressive = True

    @checked("drafter")
    def __init__(  # noqa: PLR0913  the settings of a model, and what guesses for it
        self,
        faster: Any = "prompt_lookup",
        ahead: Count = 4,
        *,
        model: Any = None,
        layers: int | None = None,
        dtype: Dtype = "auto",
        device: str = "auto",
        optimize: str = "auto",
        quantize: str | None = "auto",
        device_map: str | dict[str, Any] | None = None,
        quantization_config: dict[str, Any] | None = None,
        attn_implementation: str | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        self._small = SmallLM(
            model,
            layers,
            dtype,
            device,
            optimize=optimize,
            quantize=quantize,
            device_map=device_map,
            quantization_config=quantization_config,
            attn_implementation=attn_implementation,
            trust_remote_code=trust_remote_code,
        )
        self._faster: Drafter = make("drafter", faster)
        if self._faster.trees:
            raise ConfigError(f"drafter.faster={faster!r}: expected one that writes chains")
        self._ahead = ahead
        self.needs: frozenset[str] = self._small.needs | self._faster.needs

    def bind(self, target: Target) -> None:
        self._small.bind(target)
        with calling("drafter", self._faster):
            self._faster.bind(target)
        self.needs = self._small.needs | self._faster.needs  # may depend on the target
        self.models: Sequence[Any] = (*self._small.models, *self._faster.models)

    def open(self) -> Self:
        text = copy.copy(self)
        text._small, text._faster = self._small.open(), opened(self._faster)
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        text, source = context.tokens[:], context.source
        reach = self._small.reach(len(text))
        if reach is not None:
            pen.limit(reach)
        while pen.open:
            faster_pen = faster(pen, min(self._ahead, pen.gamma - pen.last - 2))
            so_far = replace(context, tokens=Tokens(list(text)))
            call_drafter(self._faster, [(so_far, faster_pen)])
            guess = written(faster_pen)
            logits = self._small.scores(text, guess.tokens, source)
            for node, guessed in enumerate(guess.tokens):
                text.append(redraw(pen, logits[node]))
                if text[-1] != guessed or not pen.open:
                    break
            else:
                text.append(pen.draw(logits[-1]))
