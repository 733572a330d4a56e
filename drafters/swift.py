"""Swift: the target drafts without some of its layers, and learns from its texts which."""

from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafter_parts.memory import Memory
from outrider.drafter_parts.shared_cache import require_readable_cache
from outrider.drafter_parts.trees import Chain
from outrider.errors import ConfigError, TargetError, is_int, require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.runtime.cache import GrowingCache
from outrider.runtime.encoded import decoder_start
from outrider.runtime.first_layers import depth, some_layers
from outrider.runtime.passes import PassInput
from outrider.runtime.step import run_pass
from outrider.targets.self_test import self_test

Layers = tuple[int, ...]
"""The numbers of some layers, ascending."""


@final
class Swift(Drafter):
    """Drafts with the target itself, without some of its layers (SWIFT, 2410.06916).

    Nothing is trained, no weights are copied, and the text is not read again: the layers that are
    left go on from the keys and values that the target has computed. Which layers are skipped is
    tried out on texts that ended, so it changes only from one text to the next. A change is kept if
    more tokens of that text are predicted with it. Whole layers are skipped; in the paper
    attention and feed-forward are skipped one by one.

    skipped: how many layers to skip; the first and the last one stay. Defaults to two fifths.
    trials: how many changes to try after each text; each takes a pass over its end.
    window: how many tokens of that end to predict.
    remember: whether to learn from texts at all. Otherwise the layers skipped lie evenly spaced.

    Raises `ConfigError` for numbers that are too small, and in `bind` if the target has too few
    layers, or can't be run without some of them.
    """

    needs = frozenset({"model", "cache"})

    def __init__(
        self, skipped: int | None = None, trials: int = 4, window: int = 64, remember: bool = True
    ) -> None:
        is_valid = skipped is None or (is_int(skipped) and skipped >= 1)
        require(is_valid, "drafter.skipped", skipped, "a whole number of at least 1, or null")
        for name, value in (("trials", trials), ("window", window)):
            is_valid = is_int(value) and value >= 1
            require(is_valid, f"drafter.{name}", value, "a whole number of at least 1")
        self._setting, self._trials, self._window = skipped, trials, window
        self.remembers = remember
        self._past = Past()
        self._short: Any = None  # the target without the skipped layers
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is target:
            return
        self._target = None
        self._model, self._depth = target.model, depth(target.model)
        spare = self._depth - 2
        count = max(1, self._depth * 2 // 5) if self._setting is None else self._setting
        expected = f"at most {spare}, as the target has {self._depth} layers"
        require(count <= spare, "drafter.skipped", count, expected)
        self._first = tuple(1 + (2 * i + 1) * spare // (2 * count) for i in range(count))
        self._start(self._first)
        try:
            self_test(self._short, decoder_start(self._short))
        except TargetError as error:
            raise ConfigError(f"drafter swift: {error}") from None
        self._short, self._kept = self._model, tuple(range(self._depth))
        require_readable_cache(self._model, target, "swift", self._after)
        self._start(self._first)
        self._target = target

    def _start(self, skipped: Layers) -> None:
        """Begins a cache for the layers that are left."""
        self._skipped = skipped
        self._kept = tuple(layer for layer in range(self._depth) if layer not in skipped)
        self._short = some_layers(self._model, self._kept)
        self._cache: GrowingCache | None = None
        self._known = Tokens([])

    def propose(self, context: Context, pen: Pen) -> None:
        if not pen.open or "keys.0" not in context.features:
            return
        skipped = self._past.skipped or self._first
        if skipped != self._skipped:
            self._start(skipped)
        first = self._after(context)

        def logits(paths: Sequence[Sequence[int]]) -> Tensor:
            return self._read(paths[0][-1]) if paths[0] else first

        Chain().grow(pen, logits)

    def _after(self, context: Context) -> Float[Tensor, "1 vocab"]:
        """Returns the logits after a text. The target has read all of it but the newest token."""
        text = context.tokens[:-1]
        shared = self._known.shared(Tokens(text))
        # Until all layers have the same tokens, there is no cache: this may be interrupted.
        cache, self._cache = self._cache, None
        if cache is None:
            cache, shared = GrowingCache(), 0
        cache.crop(shared - int(cache.get_seq_length()))
        if shared < len(text):
            for place, layer in enumerate(self._kept):
                rows = (context.features[f"{name}.{layer}"] for name in ("keys", "values"))
                keys, values = (row[shared : len(text)].transpose(0, 1)[None] for row in rows)
                cache.update(keys, values, place)
        self._cache, self._known = cache, Tokens(text)
        return self._read(context.tokens[-1])

    def _read(self, token: int) -> Float[Tensor, "1 vocab"]:
        """Reads a token behind the text and the draft, and returns the logits after it."""
        cache, self._cache = self._cache, None
        assert cache is not None, "a text comes first"
        ids = torch.tensor([[token]], device=self._model.device)
        logits = run_pass(self._short, cache, PassInput(ids, 1)).logits[0]
        self._cache = cache
        return logits

    def remember(self, context: Context) -> None:
        past, text = self._past, context.tokens[-self._window - 1 :]
        best = past.skipped or self._first
        most = self._predicted(text, best)
        for number in range(past.tried, past.tried + self._trials):
            changed = exchanged(best, self._depth, number)
            count = self._predicted(text, changed)
            if count > most:
                best, most = changed, count
        past.skipped, past.tried = best, past.tried + self._trials
        past.count += 1

    def _predicted(self, text: Sequence[int], skipped: Layers) -> int:
        """Returns how many tokens of a text are the likeliest ones without some layers."""
        if len(text) < 2:
            return 0
        kept = [layer for layer in range(self._depth) if layer not in skipped]
        ids = torch.tensor([text], device=self._model.device)
        inputs = PassInput(ids[:, :-1], len(text) - 1)
        logits = run_pass(some_layers(self._model, kept), GrowingCache(), inputs).logits
        return int((logits.argmax(-1) == ids[:, 1:]).sum())

    @property
    def remembered(self) -> int:
        return self._past.count

    def forget(self) -> None:
        self._past = Past()


@final
class Past(Memory):
    """What was learned from earlier texts.

    skipped: the layers to skip; None before the first text. tried: the number of changes tried.
    """

    def __init__(self) -> None:
        super().__init__()
        self.skipped: Layers | None = None
        self.tried = 0


def exchanged(skipped: Layers, depth: int, number: int) -> Layers:
    """Returns some layers with one of them exchanged for another; the first and last never are.

    number: of the exchange. All of them come up in turn.
    """
    others = [layer for layer in range(1, depth - 1) if layer not in skipped]
    if not others:
        return skipped
    out = skipped[number % len(skipped)]
    new = others[number // len(skipped) % len(others)]
    return tuple(sorted((set(skipped) - {out}) | {new}))


@hookimpl
def register_drafters(register: Register) -> None:
    register("swift", Swift)
