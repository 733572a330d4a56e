"""Hybrid: combines drafters: the first that finds a draft, one after another, or all of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, final

from outrider.base.bounds import Count, checked
from outrider.base.errors import ConfigError
from outrider.base.expectations import AtLeast
from outrider.contract.composition import apart, continued, written
from outrider.contract.context import Context, Tokens
from outrider.contract.pen import Pen
from outrider.decoding.calls import call_drafter
from outrider.decoding.composite import CompositeDrafter
from outrider.drafters.parts.trees.merged_paths import MergedPaths
from outrider.plugins.parts import make

COPY: dict[str, str | int] = {"drafter": "prompt_lookup", "min_n": 2}
"""A match of two tokens is right more often than a small network; a match of one token is not."""

Entries = Annotated[Sequence[Any], AtLeast(1)]
"""Drafters, each by name, as {drafter: NAME, SETTING: VALUE} or as a drafter."""

AFTER_A_DRAFT = frozenset({"model", "tokenizer", "source"})
"""What a drafter that continues a draft may need: the target has not read the draft yet."""


@final
class Hybrid(CompositeDrafter):
    """Asks several drafters in turn, and takes the first draft that is not empty.

    By default it copies where the text repeats itself and asks a network elsewhere, as
    SuffixDecoding (2411.04975) does with EAGLE. Which drafter is chosen depends only on the
    context, and each token is recorded with the distribution of the drafter that wrote it.

    drafters: for each, its name, its settings as {drafter: NAME, SETTING: VALUE}, or a drafter.
    chain: drafters to use in place of these, in the same form. Each goes on where the one before it
        stopped, as if the draft so far were text. Only the last may write trees, and only the first
        may need the target's states.

    merge: drafters to use in place of these, in the same form. Their drafts become one tree, in
        which equal prefixes are merged; when the budget is used up, later drafters are cut short.
        Drawn tokens become candidates too: a rule for deterministic drafts is exact for any
        candidates that are fixed before its own random decisions.

    steps: the most tokens of each drafter in a chain except the last. Defaults to no limit; a
        network then drafts to the end, and leaves nothing for the next drafter.

    Raises `ConfigError` if two drafters ask the target for scores of their own, or one of `merge`
    does, if two write trees of different kinds, if one can't be at its place in a chain, or if both
    `chain` and `merge` are set.
    """

    @checked("drafter")
    def __init__(
        self,
        drafters: Entries = (COPY, "eagle"),
        chain: Entries | None = None,
        merge: Entries | None = None,
        steps: Count | None = None,
    ) -> None:
        self._steps = steps
        if chain is not None and merge is not None:
            raise ConfigError("drafter.merge: expected none beside drafter.chain")
        self._chains, self._merges = chain is not None, merge is not None
        name = "chain" if self._chains else "merge" if self._merges else "drafters"
        entries = next(part for part in (chain, merge, drafters) if part is not None)
        super().__init__([make("drafter", entry) for entry in entries])
        kinds = sorted({part.kind for part in self.parts if part.trees})
        if len(kinds) > 1 and not self._merges:
            raise ConfigError(f"drafter.{name}: expected one kind of trees, not {kinds}")
        if self.asks and self._merges:  # a draft that stands apart has no probes
            raise ConfigError("drafter.merge: expected none that asks the target for scores")
        for place, drafter in enumerate(self.parts if self._chains else ()):
            name, missing = type(drafter).__name__, ", ".join(sorted(drafter.needs - AFTER_A_DRAFT))
            for is_wrong, where, why in (
                (drafter.trees and place < len(self.parts) - 1, "last", "it writes trees"),
                (missing and place, "first", f"it needs {missing}"),
                (drafter.kind == "paths" and place, "alone", "it writes paths"),
            ):
                if is_wrong:
                    raise ConfigError(f"drafter.chain: expected {name} {where}, since {why}")
        self.kind: str = "deterministic" if self._merges else kinds[0] if kinds else "chain"

    def propose(self, context: Context, pen: Pen) -> None:
        self.propose_batch([(context, pen)])

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        if self._merges:
            self._merge([(context, pen) for context, pen in pairs if pen.open])
            return
        for drafter in self.parts:
            if self._chains and self._steps is not None and drafter is not self.parts[-1]:
                for _, pen in pairs:
                    pen.limit(self._steps)
            call_drafter(drafter, pairs)
            if self._chains:
                after = [(_with_draft(context, pen), continued(pen)) for context, pen in pairs]
                pairs = [(context, pen) for context, pen in after if pen.open]
            else:
                pairs = [(context, pen) for context, pen in pairs if not len(pen)]

    def _merge(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        trees = [MergedPaths(pen) for _, pen in pairs]
        # Before anything is written: each draft begins at the root, under its constraint and noise.
        roots = [
            [(context, apart(pen, pen.gamma, pen.budget)) for context, pen in pairs]
            for _ in self.parts
        ]
        for drafter, own in zip(self.parts, roots, strict=True):
            call_drafter(drafter, own)
            for tree, (_, pen) in zip(trees, own, strict=True):
                draft = written(pen)
                for node in range(len(draft)):
                    tree.add([draft.tokens[step] for step in draft.path(node)])


def _with_draft(context: Context, pen: Pen) -> Context:
    """Returns a context that ends with the chain that a pen has written."""
    drafted = [pen.token(node) for node in range(len(pen))]
    longer = Tokens([*context.tokens, *drafted])
    return replace(context, tokens=longer, features={}) if drafted else context
