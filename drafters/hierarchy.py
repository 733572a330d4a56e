"""Hierarchy: a small model drafts, and is itself sped up by a faster drafter."""

from dataclasses import replace
from typing import Any, final

from outrider.base.bounds import Count, checked
from outrider.base.errors import ConfigError
from outrider.contract.composition import faster, redraw, written
from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.decoding.calls import call_drafter
from outrider.decoding.composite import CompositeDrafter
from outrider.drafters.hybrid import AFTER_A_DRAFT
from outrider.drafters.small_lm import SmallLM
from outrider.plugins.parts import make
from outrider.targets.loading import Dtype


@final
class Hierarchy(CompositeDrafter):
    """Drafts what `small_lm` would in fewer of its passes, with the same distribution.

    The faster drafter guesses `ahead` tokens, the small model scores them in one pass, and each
    guess is kept or redrawn so that the draft has exactly the small model's distribution. So the
    acceptance is the same, at a lower cost (staged speculative decoding, 2308.04623; the rule is
    that of 2211.17192). The target tests against the small model's distribution, never the
    faster drafter's.

    faster: the name of a drafter that writes chains, its settings as {drafter: NAME, ...}, or such
        a drafter.
    ahead: how many tokens it guesses at once.
    model, layers: of the small model, see `small_lm`.
    dtype, device, optimize, quantize, device_map, quantization_config: as for `small_lm`.
    attn_implementation, trust_remote_code: likewise.

    Raises `ConfigError` for a faster drafter that writes trees, or needs the target's states.
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
        small = SmallLM(
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
        guesser: Drafter = make("drafter", faster)
        if guesser.trees or guesser.asks or guesser.needs - AFTER_A_DRAFT:
            line = "expected one that writes chains, without the target's states"
            raise ConfigError(f"drafter.faster={faster!r}: {line}")
        super().__init__([small, guesser])
        self._ahead = ahead

    def propose(self, context: Context, pen: Pen) -> None:
        small, guesser = self.parts
        assert isinstance(small, SmallLM)
        text, source = context.tokens[:], context.source
        pen.limit(small.reach(len(text)))
        while pen.open:
            faster_pen = faster(pen, min(self._ahead, pen.gamma - pen.last - 2))
            so_far = replace(context, tokens=Tokens(list(text)))
            call_drafter(guesser, [(so_far, faster_pen)])
            guess = written(faster_pen)
            logits = small.scores(text, guess.tokens, source)
            for node, guessed in enumerate(guess.tokens):
                text.append(redraw(pen, logits[node]))
                if text[-1] != guessed or not pen.open:
                    break
            else:
                text.append(pen.draw(logits[-1]))
