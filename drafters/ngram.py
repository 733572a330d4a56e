"""NGram: drafts from counts of n-grams, of a corpus or of the running text."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, final

import torch
from torch import Tensor

from outrider.base.bounds import Count, checked
from outrider.base.errors import ConfigError, require
from outrider.contract.context import Context
from outrider.contract.drafter import Drafter, DrafterExample
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.data.reading import text_of
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.texts.ngrams import NGramTable, RunningCounts, log_distribution
from outrider.drafters.parts.trees.shapes import one_by_one
from outrider.drafters.parts.trees.tree_forms import parse_tree
from outrider.plugins.parts import make


@final
class NGram(Drafter):
    """Draws each token from what followed the last order - 1 tokens (2211.17192, section 4.1).

    order: 1 is the unigram, 2 the bigram, and so on. An unknown context falls back to shorter ones.
    counts: "context" for the running text, prompt included; "smollm2" for the table of SmolLM2's
        own texts that comes with the package, up to order 2; or a file: a text to tokenise, a
        data set (.jsonl in Spec-Bench's format), or a fitted table (.safetensors).
    save: a file for the table fitted on a text or data set, to load it next time.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.

    Raises `ConfigError` if a file is missing or does not fit.
    """

    examples: ClassVar[tuple[DrafterExample, ...]] = (
        DrafterExample(text=(1, 2, 3, 4, 1), draft=(2, 3, 4, 1)),
        # A chain is drawn from counts that fall back to shorter contexts (Witten and Bell).
        DrafterExample(
            text=(0, 1, 0, 2, 0), draft=(1, 0), probs=(3 / 8, 3 / 4), gamma=2, vocab_size=3
        ),
        DrafterExample(
            text=(0, 1, 0, 2, 0, 1),
            draft=(0, 1),
            probs=(31 / 36, 4 / 15),
            gamma=2,
            vocab_size=3,
            settings={"order": 3},
        ),
        # After 1 comes 2, after 2 comes 3 or, less often, 4, and after both of them 1.
        DrafterExample(
            text=(1, 2, 3, 1, 2, 4, 1, 2, 3, 1),
            draft=(2, 1, 2, 3),
            parents=(-1, -1, 1, 2),
            gamma=3,
            budget=12,
            vocab_size=5,
            settings={"tree": "top:[[0],[1],[1,0],[1,0,0]]"},
        ),
        DrafterExample(
            text=(1, 2, 3, 1, 2, 4, 1, 2, 3, 1),
            draft=(2, 3, 4, 1, 1),
            parents=(-1, 0, 0, 1, 2),
            gamma=3,
            budget=5,
            vocab_size=5,
            settings={"order": 3, "tree": "dynamic:2"},
        ),
    )

    @checked("drafter")
    def __init__(
        self, order: Count = 2, counts: str = "context", save: str | None = None, tree: Any = None
    ) -> None:
        self._order = order
        self._shape = parse_tree(tree)
        self.kind: str = self._shape.kind
        self._source = None if counts == "context" else table_file(counts)
        self._save = save
        # The running counts do not include the draft's own tokens.
        self.autoregressive: bool = self._source is not None
        if self._source is not None and not self._source.is_file():
            raise ConfigError(f"drafter.counts={counts!r}: expected 'context', 'smollm2' or a file")
        self._fitted = self._source is not None and self._source.suffix == ".safetensors"
        if save is not None and (self._source is None or self._fitted):
            raise ConfigError(f"drafter.save={save!r}: expected none, as nothing is fitted here")
        reads_text = self._source is not None and not self._fitted
        self.needs: frozenset[str] = frozenset({"tokenizer"} if reads_text else ())
        self._table: NGramTable | None = None
        self._running: RunningCounts | None = None
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is target:
            return
        if self._source is None:
            self._running = RunningCounts(target.vocab_size, self._order)
        else:
            self._table = self._read(self._source, target)
        self._target = target

    def _read(self, source: Path, target: Target) -> NGramTable:
        if not self._fitted:
            if source.suffix == ".jsonl":
                prompts = make("data", {"data": "jsonl", "path": str(source)})
                texts = [turn for prompt in prompts for turn in prompt.turns]
            else:
                texts = [text_of(str(source), "drafter.counts")]
            assert target.tokenizer is not None, "a tokenizer is among the drafter's needs"
            ids = target.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
            table = NGramTable.fit(ids, self._order, target.vocab_size)
            if self._save is not None:
                table.save(self._save)
            return table
        table = fitted_table(source, target.vocab_size)
        in_table = self._order <= table.order
        require(in_table, "drafter.order", self._order, f"at most the table's {table.order}")
        return table

    def open(self) -> Self:
        text = copy.copy(self)
        if self._running is not None:
            text._running = RunningCounts(self._running.vocab_size, self._order)
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        if self._running is not None:
            self._running.follow(context.tokens)
        counts = self._table or self._running
        assert counts is not None, "the drafter was not bound: it has no counts"
        memory = self._order - 1
        history = context.tokens[-memory:] if memory else []

        def logits(path: Sequence[int]) -> Tensor:
            text = [*history, *path]
            return torch.from_numpy(
                log_distribution(counts, text[max(0, len(text) - memory) :])
            ).float()

        self._shape.grow(pen, one_by_one(logits))


def table_file(counts: str) -> Path:
    """Returns the file of a table, or of what one is fitted on; "smollm2" is in the package."""
    if counts == "smollm2":
        return weights.built_in("bigram") / checkpoint.WEIGHTS
    return Path(counts).expanduser()


def fitted_table(source: Path, vocab_size: int) -> NGramTable:
    """Returns the table in a file; raises `ConfigError` if it is one of another vocabulary."""
    table = NGramTable.load(source)
    if table.vocab_size != vocab_size:
        raise ConfigError(
            f"drafter.counts={str(source)!r}: its vocabulary has {table.vocab_size} tokens,"
            f" the target's {vocab_size}"
        )
    return table


def unigram(counts: str = "context", save: str | None = None, tree: Any = None) -> NGram:
    """Returns a drafter that draws tokens by their frequency alone."""
    return NGram(1, counts, save, tree)


def bigram(
    order: int = 2, counts: str = "context", save: str | None = None, tree: Any = None
) -> NGram:
    """Returns a drafter that guesses from the last tokens: what has followed them in this text."""
    return NGram(order, counts, save, tree)
