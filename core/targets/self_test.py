"""Finds in a few tiny passes which abilities of a model can be relied on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final
from weakref import WeakKeyDictionary

import torch

from outrider.base.errors import ConfigError, TargetError, message_of
from outrider.base.pretrained import Model
from outrider.base.torchrun import lost
from outrider.contract.target import check_finite
from outrider.targets.passes.cached_model import CachedModel
from outrider.targets.passes.engine import engine_of
from outrider.targets.passes.first_layers import depth, first_layers
from outrider.targets.passes.placement import missing_weight
from outrider.targets.passes.windows import context_window
from outrider.targets.readings import (
    HEAD,
    TAIL,
    Subject,
    batch_differs,
    read_at_once,
    sources_differ,
    tree_differs,
)
from outrider.targets.self_test_text import beyond_a_test, differ, ordinary_tokens, short_windows


@final
@dataclass(frozen=True, slots=True)
class SelfTest:
    """For each property, why it does not hold, worded to follow "since"; "" if it holds.

    trees: a tree is scored like its paths.
    batches: texts of different lengths are scored together as they are one by one.
    sources: an encoder-decoder writes texts about sources of different lengths together as it does
        one by one.
    layers: the model's first layers work as a model, for early exit.
    window: the length of the longest window that the test's text exceeds; 0 if there is none.
    """

    trees: str = ""
    batches: str = ""
    sources: str = ""
    layers: str = ""
    window: int = 0

    def properties(self) -> dict[str, str]:
        """Returns why each property that was tested does not hold, in the order of the test.

        The first ones hold for every target: a model without them is refused.
        """
        windows = {f"also past a window (of {self.window} tokens in the test)": ""}
        return {
            "the cache grows by what is fed": "",
            "a chain in one pass equals token by token": "",
            **(windows if self.window else {}),
            "a rollback leaves nothing behind": "",
            "a tree equals its paths": self.trees,
            "a batch equals its texts": self.batches,
            "texts about several sources equal single texts": self.sources,
            "the first layers work as a model": self.layers,
        }


_results: "WeakKeyDictionary[Model, SelfTest]" = WeakKeyDictionary()


def self_test(model: Model, start: Sequence[int] = ()) -> SelfTest:
    """Returns what holds for a model, tested once.

    It reads through the model's engine, unless that vouches for its passes.

    start: the first tokens of an encoder-decoder's text.

    Raises `TargetError` if the model's text would depend on the drafts.
    """
    if is_exempt(model):
        return SelfTest()
    if model not in _results:
        _results[model] = run_self_test(model, start)
    return _results[model]


def is_exempt(model: Model) -> bool:
    """Returns whether a model's engine vouches for its passes."""
    return engine_of(model).vouches(model)


def run_self_test(model: Model, start: Sequence[int] = ()) -> SelfTest:
    """Returns what holds for a model, tested now, whatever its engine vouches for.

    The test's text exceeds a window of up to 64 tokens. A longer window is shortened for the test,
    since its masks are computed in the same way.

    start: as for `self_test`, which raises the same errors.
    """
    if weight := missing_weight(model):
        raise TargetError(
            f"model {type(model).__name__} has no numbers in {weight}, which is on the meta"
            " device: expected a model with its weights"
        )
    with short_windows(model) as window:
        return _tested(model, list(start), window)


@torch.no_grad()
def _tested(model: Model, start: list[int], window: int) -> SelfTest:
    length = max(len(start), HEAD, window + 1) + TAIL
    length = min(length, context_window(model) or length)
    if length < max(len(start), HEAD) + TAIL:  # the context window is too short for a test
        return SelfTest()
    cached, subject = _read_in_parts(model, start, length)
    result = SelfTest(layers=_uncut(model), window=window if window < length else 0)
    if reason := beyond_a_test(model):
        return replace(result, trees=reason, batches=reason)
    alone = engine_of(model).spreads or subject.source is not None
    # A batch of trees tests everything at once. Only if it fails, each property is tested alone.
    if not alone and not _failure(lambda: batch_differs(subject, branches=True), "a batch"):
        return result
    result = replace(result, trees=_failure(lambda: tree_differs(cached, subject), "a tree"))
    return _tested_together(subject, result, len(start))


def _tested_together(subject: Subject, result: SelfTest, start: int) -> SelfTest:
    """Returns a result with the properties of several texts added.

    start: the number of start tokens of an encoder-decoder's text.
    """
    if engine_of(subject.model).spreads:
        reason = "its parts are on several ranks"
        return replace(result, batches=reason)
    if subject.source is not None:
        sources = _failure(lambda: sources_differ(subject, start), "several sources")
        return replace(result, batches="it has an encoder", sources=sources)
    branches = not result.trees
    batches = _failure(lambda: batch_differs(subject, branches=branches), "a batch")
    return replace(result, batches=batches)


def _uncut(model: Model) -> str:
    """Returns why a model's first layers don't work as a model; "" if they do."""
    layers = depth(model)
    if layers < 2:
        return "it has a single layer"
    try:
        first_layers(model, layers // 2)
    except ConfigError:
        return "it can't be cut after its first layers"
    except Exception as error:  # whatever a model may raise
        if lost():
            raise
        return f"it can't be read by its first layers: {_line(error)}"
    return ""


def _read_in_parts(model: Model, start: list[int], length: int) -> tuple[CachedModel, Subject]:
    """Returns a subject, and its text in a cache, after passes of several sizes and a rollback."""
    name = type(model).__name__
    drawn = ordinary_tokens(model, length - len(start) + 2)
    text, others = start + drawn[:-2], drawn[-2:]
    source = drawn[:6] if start else None
    head = length - TAIL
    try:
        texts = [text, text[:head] + others + text[head + 2 :]]
        logits, other_logits = read_at_once(model, texts, source)
        cached = CachedModel(model, source=source)
        rows = [cached.feed(text[:head] + others, head + 2)[:head]]
        grown = cached.length == head + 2
        if grown:
            cached.drop(2)
            rows += [cached.feed(text[head : head + 1], 1), cached.feed(text[head + 1 :], TAIL - 1)]
            grown = cached.length == length
        again = CachedModel(model, source=source).feed(text[: head + 2], head + 2)[:head]
    except Exception as error:  # whatever a model may raise
        if lost():
            raise
        if engine_of(model).spreads:
            raise TargetError(
                f"model {name} can't be read on several ranks: {_line(error)}: expected a model"
                " that transformers can spread"
            ) from None
        raise TargetError(
            f"model {name} can't be read in parts: {_line(error)}: expected a decoder that keeps"
            " its keys and values in the cache that it is given"
        ) from None
    check_finite(logits, f"model {name}")
    if not grown:
        raise TargetError(
            f"model {name} does not use the cache that it is given: expected one that keeps there"
            " each token's keys and values"
        )
    if differ(torch.cat(rows), logits):
        training = ", and it is in training mode" if model.training else ""
        raise TargetError(
            f"model {name}: its logits depend on how a text is split into passes{training}:"
            " expected a model for which drafts can't change the text"
        )
    if differ(rows[0], again, same_size=True):
        raise TargetError(
            f"model {name}: its logits depend on later tokens of the same pass, as those of"
            " activations with one scale for all do: expected a scale for each token"
        )
    subject = Subject(model, text, others, source, logits, other_logits[head : head + 2])
    return cached, subject


def _failure(differs: Callable[[], bool], what: str) -> str:
    """Returns why a test is not passed; "" if it is."""
    try:
        if differs():
            return f"it reads {what} differently from single texts: it ignores a mask or positions"
    except Exception as error:  # whatever a model may raise
        if lost():  # another rank is gone, which says nothing of the model
            raise
        return f"it can't read {what}: {_line(error)}"
    return ""


def _line(error: Exception) -> str:
    if isinstance(error, TargetError):
        return str(error)
    return f"{type(error).__name__}: {message_of(error)[:120]}"
