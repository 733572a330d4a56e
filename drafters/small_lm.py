"""SmallLM: a smaller transformers model, or the target's own first layers, drafts token by token."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafter_parts import student, weights
from outrider.drafter_parts.branches import Branches
from outrider.drafter_parts.trees import parse
from outrider.errors import ConfigError, require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.runtime.cached_model import SOURCE, CachedModel, refuse_other_kind
from outrider.runtime.first_layers import first_layers
from outrider.runtime.text_tree import TextTree
from outrider.runtime.tree_mask import additive_mask
from outrider.targets.loading import load

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BUILT_IN = "smollm2"
"""The model that comes with the package."""


def located(place: str) -> Path:
    """Returns the folder that a model's name means."""
    return weights.built_in("small_lm") if place == BUILT_IN else Path(place).expanduser()


@final
class SmallLM(Drafter):
    """Drafts with a small language model (2211.17192, section 2).

    model: a hub id or folder of a model that shares the target's tokenizer, or a loaded one;
        "smollm2" for the one that comes with the package, distilled from SmolLM2; none takes the
        target itself, cut after `layers` layers, without a second copy of its weights
        (self-speculation by early exit).
    layers: how many of the target's layers to draft with, where `model` is none; unless told,
        four fifths of them, since a model that was never trained to leave early says
        little before its last layers.
    dtype, device: of a model that is loaded here, as for a target.
    tree: a shape to fill, see `outrider.drafter_parts.trees`; a chain unless told. Each depth is one pass.

    Where the target has an encoder, so has the model: an encoder of its own, which reads the source
    once.

    Raises `ConfigError` in `bind` where the two don't go together, `TargetError` where one has an
    encoder and the other none.
    """

    autoregressive = True

    def __init__(
        self,
        model: Any = None,
        layers: int | None = None,
        dtype: str = "auto",
        device: str = "auto",
        tree: Any = None,
    ) -> None:
        some = layers is None or layers >= 1
        require(some, "drafter.layers", layers, "a whole number of at least 1")
        self.needs = frozenset({"model"} if model is None else ())
        self._place = model
        self._layers = layers
        self._loading = (dtype, device)
        self._shape = parse(tree)
        self.kind = self._shape.kind
        self._target: Target | None = None
        self._cached: CachedModel | None = None
        self._known: list[int] = []
        self._source: Tokens | None = None
        self._texts: TextTree | None = None

    def bind(self, target: Target) -> None:
        if self._target is target:
            return
        if self._place is None:
            self._model = first_layers(target.model, self._layers)
        else:
            tokenizer = None
            self._model = self._place
            if isinstance(self._place, str):
                self._model, tokenizer = self._read(self._place, target)
            refuse_other_kind(self._model, encoder=SOURCE in target.offers)
            fits(self._model, tokenizer, target)
        self._target = target
        self._cached = self._texts = None

    def _read(self, place: str, target: Target) -> tuple["PreTrainedModel", Any]:
        folder = located(place)
        if student.borrows(folder):
            alike = SOURCE not in target.offers
            require(alike, "drafter.model", place, "an encoder-decoder, as the target is")
            model = student.read(folder, target)
            return model, target.tokenizer
        return load(place, *self._loading)

    def propose(self, context: Context, pen: Pen) -> None:
        if not pen.open:
            return
        base = self._catch_up(context.tokens, context.source)
        branches = Branches(len(self._known))

        def probs(nodes: Sequence[int], paths: Sequence[Sequence[int]]) -> Tensor:
            return base if not paths[0] else self._after(branches, paths)

        self._shape.grow(pen, probs)
        if self.trees:
            assert self._cached is not None
            self._cached.drop(self._cached.length - len(self._known))

    def _after(
        self, branches: Branches, paths: Sequence[Sequence[int]]
    ) -> Float[Tensor, "paths vocab"]:
        """Returns the logits after each path of one depth, whose last tokens are fed at once."""
        tokens = [path[-1] for path in paths]
        if not self.trees:
            return self._feed(tokens)
        assert self._cached is not None
        reach = additive_mask(branches.reach(paths), self._cached.model.dtype)
        depths = torch.full((1, len(paths)), len(self._known) + len(paths[0]) - 1)
        return self._rows(tokens, len(paths), reach, depths)

    def scores(
        self, text: Sequence[int], extra: Sequence[int], source: Tokens | None = None
    ) -> Float[Tensor, "extra+1 vocab"]:
        """Returns the logits after `text`, and after each of some tokens that continue it."""
        return self._catch_up(Tokens([*text, *extra]), source, rows=len(extra) + 1)

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        """Drafts one token at many places in a single pass: of one text, as the lab asks for, or after
        texts that part somewhere, as beams do."""
        single = not self.trees and all(pen.open and pen.gamma == 1 for _, pen in pairs)
        if len(pairs) > 1 and single:
            texts = [context.tokens for context, _ in pairs]
            longest, first = max(texts, key=len), min(map(len, texts))
            source = pairs[0][0].source
            of_one = all(context.source == source for context, _ in pairs)
            if of_one and all(text.shared(longest) == len(text) for text in texts):
                logits = self._catch_up(longest, source, rows=len(longest) - first + 1)
                for context, pen in pairs:
                    pen.draw(logits[len(context.tokens) - first])
                return
            if of_one and source is None:
                for (_, pen), row in zip(pairs, self._side_by_side(texts), strict=True):
                    pen.draw(row)
                return
        super().propose_batch(pairs)

    def _side_by_side(self, texts: Sequence[Tokens]) -> Float[Tensor, "texts vocab"]:
        """Returns the logits after each of some texts, on a cache that holds what they share once."""
        known = len(self._known)
        if self._texts is None or any(text[:known] != self._known for text in texts):
            # One short of what they share, so that each has a path of its own behind it.
            root = texts[0][: max(0, min(map(texts[0].shared, texts)) - 1)]
            if root:
                self._catch_up(Tokens(root), None)
            else:
                self._cached, self._known, self._source = CachedModel(self._model), [], None
            assert self._cached is not None
            self._texts, known = TextTree(self._cached, root), len(root)
        return self._fitted(self._texts.logits([text[known:] for text in texts]))

    def _catch_up(
        self, text: Tokens, source: Tokens | None, rows: int = 1
    ) -> Float[Tensor, "rows vocab"]:
        """Returns the logits after the last `rows` tokens, feeding only what the cache lacks."""
        if self._texts is not None and self._cached is not None:
            self._cached.drop(len(self._texts))
            self._texts = None
        # Those tokens are always fed again, since the cache holds no logits.
        shared = min(Tokens(self._known).shared(text), len(text) - rows)
        if self._cached is None or shared == 0 or source != self._source:
            self._cached, self._known, shared = CachedModel(self._model, (), source), [], 0
            self._source = source
        self._cached.drop(len(self._known) - shared)
        del self._known[shared:]
        return self._feed(text[shared:], rows)

    def _feed(self, tokens: list[int], rows: int = 1) -> Float[Tensor, "rows vocab"]:
        self._known += tokens
        return self._rows(tokens, rows)

    def _rows(
        self,
        tokens: list[int],
        rows: int,
        reach: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Float[Tensor, "rows vocab"]:
        assert self._cached is not None
        model = self._cached.model
        if reach is not None and positions is not None:
            reach = reach.to(model.device, model.dtype)[None, None]
            positions = positions.to(model.device)
        return self._fitted(self._cached.feed(tokens, rows, mask=reach, positions=positions))

    def _fitted(self, logits: Float[Tensor, "rows own"]) -> Float[Tensor, "rows vocab"]:
        assert self._target is not None
        extra = self._target.vocab_size - logits.shape[-1]
        if extra > 0:  # padded embeddings of another size hold no tokens
            logits = torch.nn.functional.pad(logits, (0, extra), value=float("-inf"))
        return logits[:, : self._target.vocab_size]


def fits(model: "PreTrainedModel", tokenizer: Any, target: Target) -> None:
    """Raises `ConfigError` unless the ids of `model` mean what the target's mean."""
    mine, theirs = int(model.config.get_text_config().vocab_size), target.vocab_size
    sizes = f"its vocabulary has {mine} tokens, the target's {theirs}"
    if tokenizer is None or target.tokenizer is None:
        if mine != theirs:
            raise ConfigError(f"drafter small_lm does not fit the target: {sizes}")
        return
    own, other = tokenizer.get_vocab(), target.tokenizer.get_vocab()
    if own != other:
        odd = sorted(own.items() ^ other.items(), key=lambda item: item[1])
        raise ConfigError(
            f"drafter small_lm does not fit the target: {sizes}, and their tokenizers disagree"
            f" on {len(odd)} entries, such as {odd[0][0]!r}"
        )


@hookimpl
def register_drafters(register: Register) -> None:
    register("small_lm", SmallLM)
