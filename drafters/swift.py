"""Swift: the target drafts without some of its layers, and learns from its texts which to skip."""

import copy
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Self, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.bounds import Count, checked
from outrider.base.errors import require
from outrider.base.expectations import AtLeast
from outrider.base.pretrained import Model
from outrider.contract.context import Context
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.parts.networks.cached_text import CachedText
from outrider.drafters.parts.networks.drafting_model import proved
from outrider.drafters.parts.networks.shared_kv import require_readable_cache
from outrider.drafters.parts.texts.text_memory import RememberingDrafter, TextMemory
from outrider.drafters.parts.trees.tree_forms import parse_tree
from outrider.targets.passes.engine import run_pass
from outrider.targets.passes.first_layers import depth, some_layers
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import PassInput
from outrider.targets.passes.placement import home

Layers = tuple[int, ...]
"""The numbers of some layers, ascending."""

TRIALS = 4
"""How many changes are tried after each text; each takes a pass over its last tokens."""


@final
class Swift(RememberingDrafter["Past"]):
    """Drafts with the target, less some of its layers (SWIFT, 2410.06916).

    Nothing is trained, no weights are copied, and the text is not read again: the other layers
    continue from the target's keys and values. Choices of layers are tried out on texts that have
    ended, so the choice changes only between texts. A change is kept if it predicts more tokens of
    such a text. Whole layers are skipped; the paper skips attention and feed-forward separately.

    skipped: how many layers to skip; the first and the last one stay. Defaults to two fifths.
    window: how many of its last tokens to predict.
    remember: whether to learn from texts at all. Otherwise it skips evenly spaced layers.
    memory: a file that keeps the choice from run to run.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.

    Raises `ConfigError` in `bind` if the target has too few layers, or can't be run without some.
    """

    needs: frozenset[str] = frozenset({"model", "cache"})

    @checked("drafter")
    def __init__(
        self,
        skipped: Count | None = None,
        window: Count = 64,
        remember: bool = True,
        *,
        memory: str | None = None,
        tree: Any = None,
    ) -> None:
        self._setting, self._window = skipped, window
        super().__init__(Past, remember, memory)
        self._shape = parse_tree(tree)
        self.kind: str = self._shape.kind
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is not target:
            self._bind(target)
        super().bind(target)
        self._check_learned()

    def _bind(self, target: Target) -> None:
        self._target = None
        self._model, self._depth = target.model, depth(target.model)
        self._vocab_size = target.vocab_size
        spare = self._depth - 2
        count = max(1, self._depth * 2 // 5) if self._setting is None else self._setting
        expected = f"at most {spare}, as the target has {self._depth} layers"
        require(count <= spare, "drafter.skipped", count, expected)
        self._initial = tuple(1 + (2 * i + 1) * spare // (2 * count) for i in range(count))
        short = self._without(self._initial)
        self.models: Sequence[Any] = (short,)
        proved(short, "swift")
        require_readable_cache(self._model, target, "swift", self._on_all)
        self._skip(self._initial)
        self._target = target

    def _check_learned(self) -> None:
        """Raises `ConfigError` if a file's choice of layers is not one of this target's."""
        skipped = self._past.skipped
        if skipped is not None:
            inner = [layer for layer in skipped if 0 < layer < self._depth - 1]
            count = len(self._initial)
            expected = f"{count} of the layers 1 to {self._depth - 2}"
            require(len({*inner}) == len(skipped) == count, "drafter.memory", skipped, expected)

    def _on_all(self, context: Context) -> Float[Tensor, "1 vocab"]:
        """Returns the logits after a text when no layer is skipped."""
        text = CachedText(self._model, self._vocab_size)
        return text.follow_shared(context.tokens, context.features)

    def _without(self, skipped: Layers) -> Model:
        """Returns the target without some layers."""
        others = tuple(layer for layer in range(self._depth) if layer not in skipped)
        return some_layers(self._model, others)

    def _skip(self, skipped: Layers) -> None:
        """Skips these layers from now on."""
        self._skipped = skipped
        self._text = CachedText(self._without(skipped), self._vocab_size)

    def open(self) -> Self:
        text = copy.copy(self)
        text._text = self._text.fresh()
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        pen.limit(self._text.reach(len(context.tokens)))
        if not pen.open or "keys.0" not in context.features:
            return
        skipped = self._past.skipped or self._initial
        if skipped != self._skipped:
            self._skip(skipped)
        kept = (layer for layer in range(self._depth) if layer not in skipped)
        cache = {
            f"{name}.{index}": context.features[f"{name}.{layer}"]
            for index, layer in enumerate(kept)
            for name in ("keys", "values")
        }
        self._text.grow(self._shape, pen, self._text.follow_shared(context.tokens, cache))

    def remember(self, context: Context) -> None:
        tried, text = self._past.tried, context.tokens[-self._window - 1 :]
        best = self._past.skipped or self._initial
        most = self._predicted(text, best)
        for number in range(tried, tried + TRIALS):
            changed = exchanged(best, self._depth, number)
            if (count := self._predicted(text, changed)) > most:
                best, most = changed, count
        self.learn([tried + TRIALS, *best])

    def _predicted(self, text: Sequence[int], skipped: Layers) -> int:
        """Returns how many tokens of a text the target predicts without some layers."""
        if len(text) < 2:
            return 0
        ids = torch.tensor([text], device=home(self._model))
        inputs = PassInput(ids[:, :-1], len(text) - 1)
        logits = run_pass(self._without(skipped), GrowingCache(), inputs).logits
        return int((logits.argmax(-1) == ids[:, 1:]).sum())


@final
class Past(TextMemory):
    """What was learned from earlier texts.

    skipped: the layers to skip; None before the first text.
    tried: the number of changes tried.
    """

    skipped: Layers | None = None
    tried: int = 0

    @staticmethod
    def entry(vocab_size: int) -> Any:
        return Annotated[Sequence[Annotated[int, AtLeast(0)]], AtLeast(2)]

    def learn(self, entry: list[int]) -> None:
        self.tried, self.skipped = entry[0], tuple(entry[1:])

    def entries(self) -> Iterable[list[int]]:
        yield [self.tried, *(self.skipped or ())]


def exchanged(skipped: Layers, depth: int, number: int) -> Layers:
    """Returns the layers to skip with one exchanged for another, never the first or the last layer.

    number: the number of the exchange; consecutive numbers go through all of them.
    """
    others = [layer for layer in range(1, depth - 1) if layer not in skipped]
    if not others:
        return skipped
    out = skipped[number % len(skipped)]
    new = others[number // len(skipped) % len(others)]
    return tuple(sorted((set(skipped) - {out}) | {new}))
