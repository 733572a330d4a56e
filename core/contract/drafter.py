"""Drafter: the role that proposes tokens cheaply."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Self

from jaxtyping import Float
from torch import Tensor, nn

from outrider.contract.context import Context
from outrider.contract.draft import Draft
from outrider.contract.pen import Pen
from outrider.contract.target import Target


class Drafter(ABC):
    """Proposes tokens that the target then scores in one pass.

    A draft depends only on the context: whatever a drafter keeps between calls is a cache,
    keyed by the longest common prefix with the context (`Tokens.shared`), so that nothing
    is there to roll back. The constructor's signature is the drafter's Hydra config.

    needs: what the target must offer: "model" (a transformers model), "tokenizer", "source" (an
        encoder's input, as `context.source`),
        "hidden_states" (what the model's head reads), "hidden_states.7" (what seven layers
        give) or "cache" (the keys and values of each layer, as "keys.0" and "values.0", shaped
        [tokens, heads, dim]), which then come in `context.features`, a row for each token but
        the newest; before the target has read the prompt there is none.
    kind: how the siblings of a draft come about, of `outrider.contract.draft.KINDS`: a rule takes some kinds
        and not others. A drafter that never branches writes a "chain".
    asks: whether it has the target score tokens of its own with `pen.ask`.
    autoregressive: whether the distribution of a token depends on the text before it and on nothing else,
        whoever wrote that text. The distributions along a given text are then the same at every
        depth, and the lab takes them in one pass.
    """

    needs: frozenset[str] = frozenset()
    kind: str = "chain"
    asks: bool = False
    autoregressive: bool = False

    @property
    def trees(self) -> bool:
        """Returns whether drafts may branch."""
        return self.kind != "chain"

    def bind(self, target: Target) -> None:
        """Fits the drafter to its target before the first draft; may be called again.

        Raises:
            ConfigError: the two don't go together, such as by vocabulary.
        """

    @abstractmethod
    def propose(self, context: Context, pen: Pen) -> None:
        """Writes a draft that continues `context`, while `pen.open`; none at all is fine."""

    def answer(self, questions: Draft, logits: Float[Tensor, "questions vocab"]) -> None:
        """Takes what the target says after each question that the last draft's pen was asked."""

    def fork(self) -> Self:
        """Returns a drafter for a text beside this one's: of the same make and bound alike.

        Networks, and what else is only read, are shared; what is kept of a text is not.
        """
        return copy.deepcopy(self, {id(part): part for part in _shared(self, set())})

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        """Writes a draft for each pair; a network drafter overrides this to run them at once."""
        for context, pen in pairs:
            self.propose(context, pen)


def _shared(part: Any, known: set[int]) -> Iterator[Any]:
    """Yields what forks have in common, wherever it hangs below an object."""
    if id(part) in known:
        return
    known.add(id(part))
    if isinstance(part, Target):
        yield from (part, part.tokenizer, part.model)
    elif isinstance(part, nn.Module):
        yield part
    elif isinstance(part, list | tuple):
        for each in part:
            yield from _shared(each, known)
    elif hasattr(part, "__dict__"):
        for each in vars(part).values():
            yield from _shared(each, known)
