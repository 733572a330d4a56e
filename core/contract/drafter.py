"""The role that proposes tokens, and what it may override."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, final

from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import DrafterError
from outrider.contract.context import Context, Features
from outrider.contract.draft import Draft, Logits, Verdict
from outrider.contract.pen import Pen
from outrider.contract.target import Target


class Drafter(ABC):
    """Proposes tokens, which the target then scores in one pass.

    A draft depends only on the context. Whatever a drafter keeps between calls is a cache, valid up
    to the longest common prefix with the new context (`Tokens.shared`), so a rejection leaves
    nothing to roll back. A drafter that overrides `observe` may also draft by what it observed in
    the same text, and one that overrides `remember` by earlier texts. The signature of the
    constructor is the drafter's Hydra config.

    needs: what the target must offer. "model" is a transformers model, "tokenizer" its tokenizer,
        "source" the input of an encoder, as `context.source`. The others come in
        `context.features`, with a row for each token but the newest, once the target has read the
        prompt: "hidden_states" is the input of the model's head, "hidden_states.7" the output of
        the first seven layers, and "cache" the keys and values of each layer ("keys.0",
        "values.0", ...), shaped [tokens, heads, dim].
    kind: how siblings in a draft are chosen, one of `outrider.contract.draft.KINDS`. An acceptance
        rule takes some kinds only, and a draft that the pen recorded as another kind is refused. A
        drafter that never branches writes a "chain".
    autoregressive: whether the distribution of a token depends on the text before it and nothing
        else, not even on where the draft began. The lab then computes the distributions along a
        text in one pass.
    models: the models of transformers that it runs, once it is bound; reports say by what engine.
    is_target: whether it is the target itself, once it is bound, in weights that lose nothing. All
        is then accepted by construction, which reports say.
    examples: what it writes after some texts. The conformance kit runs them.
    """

    needs: frozenset[str] = frozenset()
    kind: str = "chain"
    autoregressive: bool = False
    models: Sequence[Any] = ()
    is_target: bool = False
    examples: ClassVar[Sequence["DrafterExample"]] = ()

    @property
    def trees(self) -> bool:
        """Returns whether drafts may branch."""
        return self.kind != "chain"

    @property
    def asks(self) -> bool:
        """Returns whether it asks the target for scores of its own, and so overrides `answer`."""
        return type(self).answer is not Drafter.answer

    @property
    def observes(self) -> bool:
        """Returns whether it learns within a text: overrides `observe` or `observe_states`."""
        return type(self).observe is not Drafter.observe or self.observes_states

    @property
    def observes_states(self) -> bool:
        """Returns whether it learns from the states of its drafts: overrides `observe_states`."""
        return type(self).observe_states is not Drafter.observe_states

    @property
    def remembers(self) -> bool:
        """Returns whether it learns from texts that have ended, and so overrides `remember`."""
        return type(self).remember is not Drafter.remember

    def bind(self, target: Target) -> None:
        """Prepares the drafter for a target, before the first draft. May be called again.

        Raises `ConfigError` if drafter and target don't fit, for example by vocabulary.
        """

    def open(self) -> Self:
        """Returns the drafter of one text, as `Target.open` starts the text of a target.

        Called before each text, once the drafter is bound. By default it is the drafter itself,
        which then serves all texts. A drafter with state of one text, such as a cache, or what it
        observed, returns `copy.copy(self)` whose state starts over; networks, tables and a memory
        of earlier texts stay shared.
        """
        return self

    def open_together(self) -> "Drafter | None":
        """Returns one drafter for several texts, as `open` does for one; None if there is none.

        Its `propose_batch` is given a pair for each text in progress: one of each, if any is.
        """
        return None

    @abstractmethod
    def propose(self, context: Context, pen: Pen) -> None:
        """Writes a draft that continues `context`, while `pen.open`. It may write nothing."""

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        """Writes a draft for each pair. Override this if the drafter can write them at once."""
        for context, pen in pairs:
            check_returned(self.propose(context, pen))

    def computed(self, context: Context, draft: Draft) -> Features | None:
        """Returns what the target's own first layers gave for a draft that was just written.

        It is for a drafter that has run those layers (LayerSkip, 2404.16710): the target's pass
        goes on behind them, if its session can (`Session.resume`). The text is only as right as
        these numbers, which the conformance kit compares with the target's. None, the default, if
        there are none.

        Each has a row for the newest token of the text, and one for each node: of k layers,
        "keys.0" and "values.0" to "keys.k-1" and "values.k-1", and the output, "hidden_states.k".
        """
        return None

    def answer(self, probes: Draft, logits: Float[Tensor, "probes vocab"]) -> None:
        """Receives the target's logits after each probe that the last draft asked."""

    def observe(self, context: Context, draft: Draft, logits: Logits, verdict: Verdict) -> None:
        """Receives the target's logits at every node of a draft, once the round is over.

        Each rule is exact for every draft, and its later decisions are independent of what was
        observed, so the text stays exact whatever the drafter makes of it. A drafter that overrides
        this overrides `open`, too: what it observed belongs to one text.

        context: the one that the draft continues.
        logits: the target's own, before any constraint: row 0 after the context, row i + 1 after
            node i, rejected or not.
        verdict: what was accepted, and the token after it.
        """

    def observe_states(self, context: Context, draft: Draft, states: Features) -> None:
        """Receives the target's features of every node of a draft, just before `observe`.

        It is what a drafter makes use of that reads the states of rejected tokens, too. The same
        holds as for `observe`.

        states: each feature in `needs`, with the rows of `logits` in `observe`; views that hold
            until the method returns.
        """

    def remember(self, context: Context) -> None:
        """Adds a text to a memory, when it has ended; a drafter and those it has opened share it.

        The texts of a batch are passed in order, when all of them have ended. A drafter that
        overrides this overrides `remembered` and `forget`, too.

        context: the whole text, prompt included.
        """

    @property
    def remembered(self) -> int:
        """Returns how many texts are in the memory.

        The random decisions of a new text depend on this number too. So a text in memory tells
        nothing about them, even if it was written with the same seed.
        """
        return 0

    def forget(self) -> None:
        """Begins an empty memory. Drafters that were opened before keep the old one."""


@final
@dataclass(frozen=True, kw_only=True)
class DrafterExample:
    """What a drafter writes after a text.

    It is run at temperature 0, or at temperature 1 if it has `probs`. The target counts up:
    after token 3 it finds 4 the likeliest, then 5, and so on around its vocabulary.

    text: the ids before the draft; the prompt, if there are `rounds`.
    draft: the tokens of the draft.
    parents: the node that each of them continues, -1 for the text. Defaults to a chain.
    probs: the probability that each of them was drawn with.
    gamma, budget: the greatest depth of the draft, and the most nodes. `budget` defaults to gamma.
    rounds: how many rounds of the loop come before, for a drafter that learns from them.
    earlier: texts that ended before this one, for a drafter that remembers them. It drafts after
        each of them, too.
    vocab_size: the size of the vocabulary.
    settings: the arguments of the drafter.
    """

    text: Sequence[int]
    draft: Sequence[int]
    parents: Sequence[int] | None = None
    probs: Sequence[float] | None = None
    gamma: int = 4
    budget: int | None = None
    rounds: int = 0
    earlier: Sequence[Sequence[int]] = ()
    vocab_size: int = 10
    settings: Mapping[str, Any] = field(default_factory=dict)


def check_returned(value: object) -> None:
    """Raises `DrafterError` if a drafter returned a draft, or a generator or coroutine of one."""
    if value is not None:
        if close := getattr(value, "close", None):
            close()  # a coroutine that nobody waits for would warn
        kind = type(value).__name__
        raise DrafterError(f"returned a {kind}: expected a draft that is written with the pen")
