"""Drafts with a shared key-value cache: they continue from the target's keys and values."""

from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import ConfigError, OutriderError
from outrider.base.pretrained import Model
from outrider.contract.context import Context, Features, Tokens
from outrider.contract.draft import Draft, Verdict
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.parts.networks.adapter import Adapter, cached_model
from outrider.drafters.parts.networks.cached_text import CachedText, fit
from outrider.drafters.parts.trees.shapes import Shape
from outrider.targets.passes.cached_model import CACHE, HIDDEN, CachedModel
from outrider.targets.passes.engine import MODULES, engine_of
from outrider.targets.passes.first_layers import depth
from outrider.targets.passes.masks import TreeMask
from outrider.targets.passes.resumed import noting_output

TOGETHER = 64
"""The most drafts in one pass: in a larger one, their logits could differ in the last bits."""


@final
class SharedKVDrafting:
    """Drafts with a model that continues from its target's keys and values.

    model: the target's layers or the first of them, with weights of any precision.
    adapter: a network on top of the model's last layer, in place of its head.
    """

    def __init__(
        self, model: Model, vocab_size: int, shape: Shape, adapter: Adapter | None = None
    ) -> None:
        self._model, self._vocab_size = model, vocab_size
        self._shape, self._adapter = shape, adapter
        self._outputs: list[Tensor] = []  # of the passes since a text was followed
        if engine_of(model) is MODULES:
            model = noting_output(model, self._outputs)
        self._text = CachedText(model, vocab_size, adapter)

    def fresh(self) -> "SharedKVDrafting":
        """Returns the same model before its first text."""
        return SharedKVDrafting(self._model, self._vocab_size, self._shape, self._adapter)

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        """Writes a draft for each pair; chains that continue one text share their passes."""
        for context, pen in pairs:
            pen.limit(self._text.reach(len(context.tokens)))
        pairs = [it for it in pairs if it[1].open and "keys.0" in it[0].features]
        for first in range(0, len(pairs), TOGETHER):
            group = pairs[first : first + TOGETHER]
            longest = max((context.tokens for context, _ in group), key=len)
            share_one = all(it.tokens.shared(longest) == len(it.tokens) for it, _ in group)
            if len(group) > 1 and self._shape.kind == "chain" and share_one:
                self._draft_together(group)
                continue
            for context, pen in group:
                self._outputs.clear()
                base = self._text.follow_shared(context.tokens, context.features)
                self._text.grow(self._shape, pen, base)

    def _draft_together(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        """Writes chains that continue prefixes of one text, with one pass for each depth.

        A token sees the shared keys and values of its own prefix, and those of its own draft.

        pairs: at most `TOGETHER`.
        """
        texts, pens = [context.tokens for context, _ in pairs], [pen for _, pen in pairs]
        newest, lengths = [text[-1] for text in texts], torch.tensor(list(map(len, texts))) - 1
        longest, known = max(texts, key=len), int(lengths.max())
        cached = cached_model(self._model, self._adapter)
        cached.lend(pairs[texts.index(longest)][0].features, 0, known)
        sees = torch.arange(known) < lengths[:, None]
        depth, active = 0, [row for row, pen in enumerate(pens) if pen.open]
        while active:
            sees_itself = torch.zeros(len(pairs), len(active), dtype=torch.bool)
            sees_itself[active, range(len(active))] = True
            sees = torch.cat([sees, sees_itself], dim=1)
            tree = TreeMask(sees[active], lengths[active] + depth)
            logits = cached.feed([newest[row] for row in active], len(active), tree)
            for row, logits_of_row in zip(active, fit(logits, self._vocab_size), strict=True):
                newest[row] = pens[row].draw(logits_of_row)
            depth, active = depth + 1, [row for row in active if pens[row].open]

    @torch.no_grad()
    def computed(self, text: Sequence[int], count: int) -> dict[str, Tensor] | None:
        """Returns what `Drafter.computed` does for the last `count` tokens of a text.

        They are the newest token of a context, and the chain that was written after it.
        """
        features = self._text.finish(text)
        if features is None:
            return None
        rows = {name: states[-count:] for name, states in features.items()}
        output = torch.cat(self._outputs[-count:], dim=1)[0]
        return rows | {f"{HIDDEN}.{depth(self._model)}": output}

    def is_resumed(self, target: Target) -> bool:
        """Returns whether the target gives the same logits behind what the model hands over."""

        def rows(text: Tokens, features: Features | None = None) -> Tensor:
            session, computed, draft = target.open(text[:2], self._needs), None, Draft.chain([1, 0])
            session.score(Draft())
            session.commit(Verdict((), text[2]))
            if features is not None:
                drafting = self.fresh()
                drafting._text.follow_shared(text, features)
                drafting._text.extend(draft.tokens[:1])
                computed = drafting.computed([*text, *draft.tokens], 3)
            scores = session.resume(draft, computed or {})
            session.commit(Verdict((0,), text[0]))
            return torch.cat([scores, session.score(Draft())])

        return reads_cache(target, lambda it: rows(it.tokens, it.features), rows, self._needs)

    @property
    def _needs(self) -> frozenset[str]:
        return frozenset({CACHE} if self._adapter is None else {CACHE, self._adapter.reads})

    def can_start(self, target: Target) -> bool:
        """Returns whether the model gives the same logits on the target's cache as on its own."""

        def on_shared(context: Context) -> Tensor:
            return self._text.fresh().follow_shared(context.tokens, context.features)

        return reads_cache(target, on_shared, self._text.fresh().follow, self._needs)


Logits = Float[Tensor, "rows vocab"]


def require_readable_cache(
    model: Any, target: Target, drafter: str, logits: Callable[[Context], Logits]
) -> None:
    """Raises `ConfigError` unless a drafter on the target's whole cache gives its model's logits.

    drafter, logits: its name, and its logits after a text whose features are the target's cache.
    """
    if not reads_cache(target, logits, lambda text: CachedModel(model).feed(text, 1)):
        name = type(target.model).__name__
        raise ConfigError(f"drafter {drafter}: {name} can't draft on a part of its cache")


@torch.no_grad()
def reads_cache(
    target: Target,
    logits: Callable[[Context], Logits],
    expected: Callable[[Tokens], Logits],
    needs: frozenset[str] = frozenset({CACHE}),
) -> bool:
    """Returns whether a drafter gives the same logits on the target's cache as on its own.

    They may differ by rounding, up to 5% of the standard deviation of the logits.

    logits: the drafter's, after a text whose features, `needs`, are the target's.
    expected: what they should be, after a text that the drafter reads from its beginning.
    """
    size = target.vocab_size
    text = Tokens([size // 2, size // 3, size // 4])
    try:
        session = target.open(text[:2], needs)
        session.score(Draft())
        reference = expected(text).float()
        drafted = logits(Context(text, None, session.features())).float()
    except OutriderError:
        raise
    except Exception:  # noqa: BLE001  attention of other kinds fails in any way
        return False
    deviation = float(reference[reference.isfinite()].std())
    return torch.allclose(drafted, reference, atol=0.05 * deviation)
