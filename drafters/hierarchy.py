"""Hierarchy: a small model drafts, and is itself sped up by a faster drafter."""

from typing import Any, final

from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.small_lm import SmallLM
from outrider.errors import ConfigError, is_int, require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.plugins.registry import make


@final
class Hierarchy(Drafter):
    """Drafts as `small_lm` does, with the distribution of the small model, in fewer of its passes.

    The faster drafter guesses `ahead` tokens, the small model scores them in one pass, and each is
    kept or drawn anew so that the draft has the small model's distribution exactly: the same
    acceptance, for less. (Staged speculative decoding, 2308.04623; the rule is 2211.17192's.) The
    target tests against the small model's distribution, never against the faster drafter's.

    faster: a drafter's name, or a drafter, that writes chains.
    ahead: how many tokens it guesses at once.
    model, layers, dtype, device: of the small model, see `small_lm`.

    Raises `ConfigError` for an `ahead` below 1, or a faster drafter that writes trees.
    """

    autoregressive = True

    def __init__(
        self,
        faster: Any = "prompt_lookup",
        ahead: int = 4,
        model: Any = None,
        layers: int | None = None,
        dtype: str = "auto",
        device: str = "auto",
    ) -> None:
        some = is_int(ahead) and ahead >= 1
        require(some, "drafter.ahead", ahead, "a whole number of at least 1")
        self._middle = SmallLM(model, layers, dtype, device)
        self._faster: Drafter = make("drafter", faster)
        if self._faster.trees:
            raise ConfigError(f"drafter.faster={faster!r}: expected one that writes chains")
        self._ahead = ahead
        self.needs = self._middle.needs | self._faster.needs

    def bind(self, target: Target) -> None:
        self._middle.bind(target)
        self._faster.bind(target)

    def propose(self, context: Context, pen: Pen) -> None:
        text, source = context.tokens[:], context.source
        while pen.open:
            inner = pen.faster(min(self._ahead, pen.gamma - pen.last - 2))
            self._faster.propose_batch(
                [(Context(Tokens(list(text)), source, context.features), inner)]
            )
            guess = inner.finish()
            rows = self._middle.scores(text, guess.tokens, source)
            for node, guessed in enumerate(guess.tokens):
                text.append(pen.redraw(rows[node], guess, node))
                if text[-1] != guessed or not pen.open:
                    break
            else:
                text.append(pen.draw(rows[-1]))


@hookimpl
def register_drafters(register: Register) -> None:
    register("hierarchy", Hierarchy)
