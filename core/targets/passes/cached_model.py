"""A transformers model with the key-value cache of one text, and the session on it."""

from collections.abc import Collection, Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.base.errors import TargetError, require
from outrider.base.pretrained import Model
from outrider.contract.context import Features
from outrider.contract.devices import placed
from outrider.contract.draft import Draft, Logits, Verdict
from outrider.contract.judge import Judge, Judges
from outrider.contract.target import Scored, Session, Target
from outrider.targets.passes.encoded import EncodedCache, has_encoder
from outrider.targets.passes.engine import MODULES, engine_of, run_pass
from outrider.targets.passes.first_layers import depth
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.growing_tensor import GrowingTensor
from outrider.targets.passes.masks import TreeMask, additive_mask, tree_mask
from outrider.targets.passes.pass_input import Pass, PassInput
from outrider.targets.passes.placement import home
from outrider.targets.passes.recurrent import (
    STATEFUL,
    STATELESS,
    has_states,
    layer_types,
    new_cache,
)
from outrider.targets.passes.resumed import resume_pass

NewIds = Sequence[int] | Int[Tensor, "tokens"]
"""The ids of a pass, which only the device may know."""

RowLogits = Float[Tensor, "rows vocab"]
"""The logits after the last tokens of a pass."""

TOGETHER = 64
"""The most tokens of a text that are read with a tree.

The mask of more would be large, and a library may attend to more of a chain in another way.
"""

HIDDEN = "hidden_states"
CACHE = "cache"
SOURCE = "source"


@final
class CachedModel:
    """Scores further tokens of a text in one pass each, and rolls back exactly.

    The cache keeps every position, also where a model attends to a sliding window (the mask then
    limits what is seen), since a window that has dropped its past can't be rolled back. Recurrent
    states are rolled back to a snapshot.

    features: what to keep of the text, by name: "hidden_states" is what the head reads, and
        "hidden_states.7" the output of the first seven layers; "cache" gives "keys.0" and
        "values.0", those of the first layer [tokens, heads, dim], and so on.
    source: the encoder's input, if the model has an encoder. Such a model has no features.
    computed: what the first layers gave for the tokens of the next pass. Only the others run in it,
        if transformers' modules run them, and no state of the first ones is kept.

    Raises `TargetError` for a model whose state can't be rolled back, and for an encoder without a
    source or a source without an encoder.
    """

    def __init__(
        self, model: Model, features: Collection[str] = (), source: Sequence[int] | None = None
    ) -> None:
        refuse_stateful(model)
        refuse_other_kind(model, encoder=source is not None)
        self.model = model
        self._device = home(model)
        self._state_of = {name: state_number(name) for name in features if name.startswith(HIDDEN)}
        self._shows_cache = CACHE in features
        self.computed: Features = {}
        self._states = {name: GrowingTensor() for name in self._state_of}
        self._cache: Any = new_cache(model) if source is None else EncodedCache(model, source)

    @property
    def features(self) -> dict[str, Float[Tensor, "tokens width"]]:
        """Returns the features of the text so far, by name, as views that a round may change."""
        features = {name: states.content for name, states in self._states.items() if len(states)}
        if self._shows_cache and self.length:
            layers: Any = self._cache.layers
            for index, layer in enumerate(layers):
                features[f"keys.{index}"] = layer.keys[0].transpose(0, 1)
                features[f"values.{index}"] = layer.values[0].transpose(0, 1)
        return features

    @property
    def length(self) -> int:
        """Returns the number of tokens in the cache."""
        return int(self._cache.get_seq_length())

    def feed(self, tokens: NewIds, rows: int, tree: TreeMask | None = None) -> RowLogits:
        """Appends `tokens` to the cache, and returns the logits of the last `rows` of them.

        tree: what each token attends to. By default the tokens continue the text as a chain.
        """
        return self.feed_and_judge(tokens, rows, tree, None).logits[0]

    def feed_and_judge(
        self, tokens: NewIds, rows: int, tree: TreeMask | None, judge: Judge | None
    ) -> Pass:
        """Does what `feed` does, and may decide on the draft in the last `rows - 1` tokens."""
        result = self._run(tokens, rows, tree, set(self._state_of.values()), judge)
        for name, number in self._state_of.items():
            self._states[name].append(result.states[number][0])
        return result

    def read(self, tokens: NewIds, tree: TreeMask | None = None) -> Float[Tensor, "tokens width"]:
        """Appends tokens to the cache, and returns their last states instead of logits."""
        return self._run(tokens, 0, tree, {-1}).states[-1][0]

    @torch.no_grad()
    def _run(
        self,
        tokens: NewIds,
        rows: int,
        tree: TreeMask | None,
        states: Collection[int],
        judge: Judge | None = None,
    ) -> Pass:
        mask = positions = None
        if tree is not None:
            sees = placed(tree.sees, self._device)
            mask = additive_mask(sees, self.model.dtype)[None, None]
            positions = placed(tree.positions, self._device)[None]
        ids = placed(tokens, self._device)[None]
        judges = Judges.of([judge], ids.shape[1])
        inputs = PassInput(ids, rows, mask, positions, states, judges)
        computed, self.computed = self.computed, {}
        layers = sum(name.startswith("keys.") for name in computed)
        is_plain = engine_of(self.model) is MODULES and isinstance(self._cache, GrowingCache)
        if not (layers and is_plain) or any(0 <= number < layers for number in states):
            return run_pass(self.model, self._cache, inputs)
        output = computed[f"{HIDDEN}.{layers}"][None]
        result = resume_pass(self.model, self._cache, inputs, layers, output)
        self.lend(computed, 0, len(tokens))
        return result

    def drop(self, count: int) -> None:
        """Removes the last `count` tokens from the cache."""
        self._cache.crop(-count)
        for states in self._states.values():
            states.crop(self.length)

    def lend(self, features: Features, first: int, last: int) -> None:
        """Appends another model's keys and values of a text, from token `first` to before `last`.

        features: "keys.0", "values.0" and so on, of the model's layers or the first of them.
        """
        dtype = engine_of(self.model).cache_dtype(self.model)
        layers = sum(name.startswith("keys.") for name in features)
        for layer in range(min(layers, depth(self.model))):
            keys, values = (
                features[f"{name}.{layer}"][first:last].transpose(0, 1)[None].to(dtype)
                for name in ("keys", "values")
            )
            self._cache.update(keys, values, layer)

    def retain_rows(self, count: int, rows: Sequence[int]) -> None:
        """Of the last `count` tokens, keeps those at `rows`, in that order."""
        start = self.length - count
        self._cache.retain_rows(count, rows)
        for states in self._states.values():
            indices = torch.tensor(rows, dtype=torch.long, device=self._device) + start
            states.retain_rows(start, indices)


@final
class CachedSession(Session):
    """Scores drafts on a cached model.

    tokens: the text so far; none of it is in the cache yet.
    """

    def __init__(self, cached: CachedModel, tokens: Sequence[int]) -> None:
        self._cached = cached
        self._pending = list(tokens)  # committed, but not yet in the cache
        self._draft = Draft()

    def score(self, draft: Draft) -> Logits:
        return self.score_and_judge(draft, None)[0]

    def score_and_judge(self, draft: Draft, judge: Judge | None) -> Scored:
        self._draft, tree = draft, None
        first: list[RowLogits] = []
        if not draft.is_chain:
            if len(self._pending) > TOGETHER:
                first.append(self._cached.feed(self._pending, 1))
                self._pending = []
            tree = tree_mask(draft.parents, pending=len(self._pending), cached=self._cached.length)
        tokens = [*self._pending, *draft.tokens]
        rows = len(draft) + 1 - len(first)
        result = self._cached.feed_and_judge(tokens, rows, tree, judge)
        logits, verdict = result.logits[0], result.verdicts[0] if result.verdicts else None
        return torch.cat([*first, logits]) if first else logits, verdict

    def resume(self, draft: Draft, computed: Features) -> Logits:
        if len(self._pending) == 1:
            self._cached.computed = computed
        return self.score(draft)

    def commit(self, verdict: Verdict) -> None:
        drafted, accepted = len(self._draft), verdict.accepted
        if accepted == tuple(range(len(accepted))):
            self._cached.drop(drafted - len(accepted))
        else:
            self._cached.retain_rows(drafted, accepted)
        self._pending = [verdict.next_token]

    def features(self) -> dict[str, Tensor]:
        return self._cached.features


def state_number(name: str) -> int:
    """Returns transformers' number of the hidden states that a feature's name stands for."""
    return int(name.partition(".")[2] or -1)


def refuse_other_kind(model: Model, *, encoder: bool) -> None:
    """Raises `TargetError` unless a model has an encoder exactly if `encoder` is true."""
    fault, expected = "has an encoder, but the target has no source for it", "a decoder-only model"
    if encoder:
        fault, expected = "has no encoder for the target's source", "an encoder-decoder model"
    if has_encoder(model) != encoder:
        raise TargetError(f"model {type(model).__name__} {fault}: expected {expected}")


def refuse_stateful(model: Model) -> None:
    """Raises `TargetError` if a model keeps a state that no cache can roll back."""
    name, others = type(model).__name__, layer_types(model) - (STATELESS | STATEFUL)
    if not has_states(model) and (getattr(model, "_is_stateful", False) or others):
        reason = f"layers of {', '.join(sorted(others))}" if others else "a recurrent state"
        raise TargetError(f"model {name}: {reason} can't be rolled back after a rejection")


def refuse_encoder(target: Target, purpose: str = "") -> None:
    """Raises `ConfigError` if a target has an encoder. purpose: why it may not, for the message."""
    is_decoder = SOURCE not in target.offers
    expected = f"a decoder-only model{purpose}"
    require(is_decoder, "target", type(target.model).__name__, expected)
