"""CachedText: a language model that follows a text, and reads each token only once."""

import copy
import sys
from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.pretrained import Model
from outrider.contract.context import Tokens
from outrider.contract.pen import Pen
from outrider.drafters.parts.networks.adapter import AdaptedModel, Adapter, cached_model
from outrider.drafters.parts.trees.shapes import Shape
from outrider.targets.passes.cached_model import CachedModel, NewIds, RowLogits
from outrider.targets.passes.masks import CachedTree, TreeMask, context_window


@final
class CachedText:
    """A language model and the text that it read last, with their key-value cache.

    The cache begins with the keys and values of that text. What comes after them, paths of a tree,
    is dropped when the model next follows a text.

    vocab_size: the width of all logits. The model's are cut to it, or padded with -inf, since the
        model's embeddings may be padded to another size. Ids that it does not have are read as 0.
    adapter: a network on top of the model's last layer, in place of its head.
    """

    def __init__(self, model: Model, vocab_size: int, adapter: Adapter | None = None) -> None:
        self._model, self._adapter = model, adapter
        self._vocab_size = vocab_size
        self._own_size, self._window = own_size(model), context_window(model)
        self._forget(None)

    def reach(self, length: int) -> int:
        """Returns how many tokens the model can draft after a text, by its window."""
        return sys.maxsize if self._window is None else max(0, self._window + 1 - length)

    def fresh(self) -> "CachedText":
        """Returns the same model before its first text."""
        text = copy.copy(self)
        text._forget(None)
        return text

    def _forget(self, source: Tokens | None) -> None:
        self._cached: CachedModel | AdaptedModel | None = None
        self._tokens: list[int] = []
        self._read_elsewhere = 0  # how many of those tokens another model has read
        self._source = source
        self._tree = CachedTree(0)

    def follow(self, text: Tokens, source: Tokens | None = None, rows: int = 1) -> RowLogits:
        """Returns the logits after the last `rows` tokens of a text. source: an encoder's input."""
        # The last tokens are always read again, since the cache holds no logits.
        shared = min(Tokens(self._tokens).shared(text), len(text) - rows)
        cached = self._cached
        if cached is None or shared == 0 or source != self._source:
            self._forget(source)
            cached, shared = cached_model(self._model, self._adapter, source), 0
        else:
            self._cached = None  # see `_feed`
            del self._tokens[shared:]
            self._read_elsewhere = min(self._read_elsewhere, shared)
            cached.drop(cached.length - shared)
        self._cached = cached
        return self.extend(text[shared:], rows)

    def follow_shared(
        self, text: Tokens, features: Mapping[str, Tensor]
    ) -> Float[Tensor, "1 vocab"]:
        """Returns the logits after a text that another model has read, except its last token.

        That model's keys and values replace what this one has read itself. This one reads only the
        last token.

        features: those of a `Context`, with the "cache" and the states that an adapter reads.
        """
        known = len(text) - 1
        shared = min(Tokens(self._tokens[: self._read_elsewhere]).shared(text), known)
        cached = self._cached
        if cached is None or self._source is not None:
            self._forget(None)
            cached, shared = cached_model(self._model, self._adapter), 0
        self._cached = None  # see `_feed`
        cached.drop(cached.length - shared)
        cached.lend(features, shared, known)
        self._tokens, self._read_elsewhere = text[:known], known
        self._cached = cached
        return self.extend(text[known:])

    def grow(self, shape: Shape, pen: Pen, base: Float[Tensor, "1 vocab"]) -> None:
        """Writes a draft of a shape that continues the text. base: the logits after the text."""
        if shape.kind == "chain":
            after = lambda token: self._feed(token if isinstance(token, Tensor) else [token], 1)[0]
            written = pen.chain(base[0], after)
            self._tokens += written[:-1]
            self._tree = CachedTree(len(self._tokens))
        else:
            shape.grow(pen, lambda paths: self.branch(paths) if paths[0] else base)

    def extend(self, tokens: Sequence[int], rows: int = 1) -> RowLogits:
        """Appends tokens to the text, and returns the logits after the last `rows` of them."""
        logits = self._feed(tokens, rows)
        self._tokens += tokens
        self._tree = CachedTree(len(self._tokens))
        return logits

    def finish(self, text: Sequence[int]) -> dict[str, Tensor] | None:
        """Reads a text's last token, and returns all keys and values; None unless it read the rest.

        It is what a draft leaves undone, since nothing is drafted after its last token.
        """
        if self._cached is None or self._tokens != text[:-1]:
            return None
        self.extend(text[-1:], rows=0)
        return self._cached.features

    def branch(self, paths: Sequence[Sequence[int]]) -> Float[Tensor, "paths vocab"]:
        """Returns the logits after the text and each path, in one pass; the text is unchanged.

        paths: all of one length, at least 1. Earlier calls have taken the paths to their parents.
        """
        return self._feed([path[-1] for path in paths], len(paths), self._tree.add(paths))

    def _feed(self, tokens: NewIds, rows: int, tree: TreeMask | None = None) -> RowLogits:
        assert self._cached is not None, "no text was followed: there is no cache to read from"
        # An interrupted pass leaves the cache in an unknown state, so it is dropped until the end.
        cached, self._cached = self._cached, None
        logits = cached.feed(known_ids(tokens, self._own_size), rows, tree)
        self._cached = cached
        return fit(logits, self._vocab_size)


def own_size(model: Model) -> int:
    """Returns how many ids a model has embeddings for."""
    table: Any = model.get_input_embeddings()
    return int(table.weight.shape[0])


def known_ids(tokens: NewIds, size: int) -> Any:
    """Returns tokens as a model of `size` ids reads them: 0 for an id beyond its vocabulary."""
    if isinstance(tokens, Tensor):
        return torch.where(tokens < size, tokens, 0)
    return [token if token < size else 0 for token in tokens]


def fit(logits: Float[Tensor, "*rows own"], vocab_size: int) -> Float[Tensor, "*rows vocab"]:
    """Returns logits cut to the width of a vocabulary, or padded with -inf."""
    missing = vocab_size - logits.shape[-1]
    if missing > 0:
        logits = torch.nn.functional.pad(logits, (0, missing), value=float("-inf"))
    return logits[..., :vocab_size]
