"""Drafter: proposes tokens cheaply."""

import copy
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any, ClassVar, Self

from jaxtyping import Float
from torch import Tensor, nn

from outrider.contract.context import Context
from outrider.contract.draft import Draft
from outrider.contract.examples import DrafterExample
from outrider.contract.pen import Pen
from outrider.contract.target import Target


class Drafter(ABC):
    """Proposes tokens, which the target then scores in one pass.

    A draft depends only on the context. Whatever a drafter keeps between calls is a cache, valid up
    to the longest common prefix with the new context (`Tokens.shared`), so a rejection leaves
    nothing to roll back. The drafts of a drafter that `observes` may also depend on what it
    observed in the same text, and those of one that `remembers` on earlier texts. The signature of
    the constructor is the drafter's Hydra config.

    needs: what the target must offer. "model" is a transformers model, "tokenizer" its tokenizer,
        "source" the input of an encoder, as `context.source`. The others come in
        `context.features`, with a row for each token but the newest, once the target has read the
        prompt: "hidden_states" is the input of the model's head, "hidden_states.7" the output of
        the first seven layers, and "cache" the keys and values of each layer ("keys.0",
        "values.0", ...), shaped [tokens, heads, dim].
    kind: how siblings in a draft are chosen, one of `outrider.contract.draft.KINDS`. An acceptance
        rule takes some kinds only, and a draft that the pen recorded as another kind is refused. A
        drafter that never branches writes a "chain".
    asks: whether the drafter uses `pen.ask`.
    autoregressive: whether the distribution of a token depends on the text before it and nothing
        else, not even on where the draft began. The lab then computes the distributions along a
        text in one pass.
    observes: whether the drafter is shown the target's logits at all nodes of its drafts, in
        `observe`. Such a drafter works on one text at a time; a fork takes another one.
    remembers: whether drafts may depend on texts that ended before this one began. Such texts are
        passed to `remember`, and all forks share the memory.
    examples: what it writes after some texts. The conformance kit plays them.
    """

    needs: frozenset[str] = frozenset()
    kind: str = "chain"
    asks: bool = False
    autoregressive: bool = False
    observes: bool = False
    remembers: bool = False
    examples: ClassVar[Sequence[DrafterExample]] = ()

    @property
    def trees(self) -> bool:
        """Returns whether drafts may branch."""
        return self.kind != "chain"

    def bind(self, target: Target) -> None:
        """Prepares the drafter for a target, before the first draft. May be called again.

        Raises:
            ConfigError: drafter and target don't fit, for example by vocabulary.
        """

    @abstractmethod
    def propose(self, context: Context, pen: Pen) -> None:
        """Writes a draft that continues `context`, while `pen.open`. It may write nothing."""

    def answer(self, questions: Draft, logits: Float[Tensor, "questions vocab"]) -> None:
        """Receives the target's logits after each question that the last draft asked."""

    def observe(
        self, context: Context, draft: Draft, logits: Float[Tensor, "nodes+1 vocab"]
    ) -> None:
        """Receives the target's logits at every node of a draft, once the round is over.

        Called if the drafter `observes`. The verdict is not shown: the next context tells what was
        accepted. Each rule is exact for every draft, and its decisions are independent of what was
        observed, so the text stays exact whatever the drafter makes of it.

        context: the one that the draft continues.
        logits: the target's own, before any constraint: row 0 after the context, row i + 1 after
            node i, rejected or not.
        """

    def reset(self) -> None:
        """Forgets what was observed. Called before each text."""

    def remember(self, context: Context) -> None:
        """Adds a text to the memory that this drafter shares with all forks.

        Called if the drafter `remembers`, when a text has ended. The texts of a batch are passed in
        order, when all of them have ended.

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
        """Begins an empty memory. Forks that were made before keep the old one."""

    def fork(self) -> Self:
        """Returns a copy of the drafter, bound to the same target, for another text.

        The two share the target, all networks, every `Constant`, and the tensors that the drafter
        holds itself, as attributes or in lists, dicts and the like: replace such a tensor, but
        don't write into it. Everything else is copied, the tensors of a cache included, except what
        was observed: the copy is `reset`.
        """
        parts = list(_shared(vars(self), set(), is_own=True))
        fork = copy.deepcopy(self, {id(part): part for part in parts})
        fork.reset()
        return fork

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        """Writes a draft for each pair. Override this if the drafter can write them at once."""
        for context, pen in pairs:
            self.propose(context, pen)


class Constant:
    """Base class of objects that the forks of a drafter share instead of copying.

    It is for large tables that never change, and for a memory, which changes only when texts end.
    """

    def __deepcopy__(self, _: object) -> Self:
        return self


_CONTAINERS = (list, tuple, set, frozenset, deque, Mapping)
_ATOMS = (FunctionType, BuiltinFunctionType, ModuleType, type, str, bytes, Constant)
"""What is never copied, nor searched for parts."""


def _shared(part: Any, visited: set[int], *, is_own: bool) -> Iterator[Any]:
    """Yields the objects below `part` that forks share.

    is_own: whether the drafter holds `part` itself, not as a part of another object.
    """
    if id(part) in visited or isinstance(part, _ATOMS):
        return
    visited.add(id(part))
    if isinstance(part, Target):
        yield from (part, part.tokenizer, part.model)
    elif isinstance(part, nn.Module) or (is_own and isinstance(part, Tensor)):
        yield part
    elif isinstance(part, _CONTAINERS):
        for item in part.values() if isinstance(part, Mapping) else part:
            yield from _shared(item, visited, is_own=is_own)
    elif not isinstance(part, Tensor):
        for attribute in _attributes(part):
            yield from _shared(attribute, visited, is_own=False)


def _attributes(part: Any) -> Iterator[Any]:
    """Yields the values of an object's attributes, those in slots and in C included."""
    if hasattr(part, "__dict__"):
        yield from vars(part).values()
    for kind in type(part).__mro__:
        for member in vars(kind).values():
            if isinstance(member, MemberDescriptorType):
                with suppress(AttributeError):  # a slot that holds nothing
                    yield member.__get__(part)
