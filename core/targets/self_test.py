"""Finds in a few tiny passes which abilities of a model can be relied on."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import final
from weakref import WeakKeyDictionary

import torch

from outrider.base.errors import ConfigError, TargetError, message_of
from outrider.base.pretrained import Model
from outrider.contract.draft import ROOT, Draft, Verdict
from outrider.contract.target import check_finite
from outrider.targets.batches.sessions import open_sessions, score_sessions
from outrider.targets.passes.cached_model import CachedModel, CachedSession
from outrider.targets.passes.engine import engine_of, is_cut_off
from outrider.targets.passes.first_layers import depth, first_layers
from outrider.targets.passes.masks import context_window
from outrider.targets.passes.placement import missing_weight
from outrider.targets.readings import Plain, Reading, Round, Text, chain_rounds, read, rows_of
from outrider.targets.self_test_text import beyond_a_test, differ, ordinary_tokens, short_windows

TAIL = 4
"""The number of tokens at the end of the test's text, which are read in several ways."""

HEAD = 3
"""The least number of tokens before them."""


@final
@dataclass(frozen=True, slots=True)
class SelfTest:
    """For each property, why it does not hold, worded to follow "since"; "" if it holds.

    trees: a tree is scored like its paths.
    batches: texts of different lengths are scored together as they are one by one.
    layers: the model's first layers work as a model, for early exit.
    window: the length of the longest window that the test's text exceeds; 0 if there is none.
    """

    trees: str = ""
    batches: str = ""
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
            "the first layers work as a model": self.layers,
        }


_results: "WeakKeyDictionary[Model, SelfTest]" = WeakKeyDictionary()


def self_test(model: Model, start: Sequence[int] = ()) -> SelfTest:
    """Returns what holds for a model, tested once.

    It reads through the model's engine, unless that vouches for its passes.

    start: the first tokens of an encoder-decoder's text.

    Raises `TargetError` if the model's text would depend on the drafts.
    """
    if engine_of(model).vouches(model):
        return SelfTest()
    if model not in _results:
        _results[model] = run_self_test(model, start)
    return _results[model]


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


@final
@dataclass(frozen=True, slots=True)
class _Subject:
    """A model, and the texts that it is tested with.

    text: ordinary tokens, after the start tokens if the model is an encoder-decoder.
    other: the same text with two other tokens at `head`.
    source: the encoder's input.
    plain: finds the logits after the beginnings of both texts, each of which one pass has read.
    """

    model: Model
    text: list[int]
    other: list[int]
    source: list[int] | None
    plain: Plain


@torch.no_grad()
def _tested(model: Model, start: list[int], window: int) -> SelfTest:
    length = max(len(start), HEAD, window + 1) + TAIL
    length = min(length, context_window(model) or length)
    if length < max(len(start), HEAD) + TAIL:  # the context window is too short for a test
        return SelfTest(batches="it has an encoder" if start else "")
    subject = _read_in_parts(model, start, length)
    result = SelfTest(layers=_uncut(model), window=window if window < length else 0)
    if reason := beyond_a_test(model):
        return replace(result, trees=reason, batches=reason)
    alone = engine_of(model).spreads or subject.source is not None
    # A batch of trees tests everything at once. Only if it fails, each property is tested alone.
    if not alone and not _failure(lambda: _batch_differs(subject, branches=True), "a batch"):
        return result
    result = replace(result, trees=_failure(lambda: _tree_differs(subject), "a tree"))
    if engine_of(model).spreads:
        return replace(result, batches="its parts are in several processes")
    if subject.source is not None:
        return replace(result, batches="it has an encoder")
    branches = not result.trees
    batches = _failure(lambda: _batch_differs(subject, branches=branches), "a batch")
    return replace(result, batches=batches)


def _read_in_parts(model: Model, start: list[int], length: int) -> _Subject:
    """Returns a subject whose text was read in passes of several sizes, with a rollback.

    Raises `TargetError` if that changes the text.
    """
    name = type(model).__name__
    drawn = ordinary_tokens(model, length - len(start) + 2)
    text, others = start + drawn[:-2], drawn[-2:]
    source = drawn[:6] if start else None
    head = length - TAIL
    other = text[:head] + others + text[head + 2 :]
    # Two tokens are drafted in vain after the head, and the tail is read one and three at a time.
    rounds = chain_rounds(text[1:], other[1:], [(head + 1, head - 1), (0, 0), (2, 1)])
    try:
        alone = (CachedModel(model, source=source).feed(ids, length) for ids in (text, other))
        logits = torch.stack([*alone])
        subject = _Subject(model, text, other, source, rows_of([text, other], logits))
        cached = CachedModel(model, source=source)
        opened = Text(CachedSession(cached, text[:1]), text[:1])
        readings = list(read([opened], rounds, subject.plain))
        grown = cached.length == length - 1
        again = CachedModel(model, source=source).feed(text[: head + 2], head + 2)[:head]
    except Exception as error:  # noqa: BLE001  whatever a model may raise
        line = _line(error)
        if engine_of(model).spreads:
            raise TargetError(
                f"model {name} can't be read in several processes: {line}: expected a model that"
                " transformers can spread"
            ) from None
        raise TargetError(
            f"model {name} can't be read in parts: {line}: expected a decoder that keeps its keys"
            " and values in the cache that it is given"
        ) from None
    check_finite(logits, f"model {name}")
    if not grown:
        raise TargetError(
            f"model {name} does not use the cache that it is given: expected one that keeps there"
            " each token's keys and values"
        )
    if _differ(readings):
        training = ", and it is in training mode" if model.training else ""
        raise TargetError(
            f"model {name}: its logits depend on how a text is split into passes{training}:"
            " expected a model for which drafts can't change the text"
        )
    if differ(readings[0].rows[:head], again, same_size=True):
        raise TargetError(
            f"model {name}: its logits depend on later tokens of the same pass, as those of"
            " activations with one scale for all do: expected a scale for each token"
        )
    return subject


def _tree_differs(subject: _Subject) -> bool:
    """Returns whether a tree's logits are wrong, in a pass that reads the text's last token too."""
    *start, last = subject.text[:-TAIL]
    cached = CachedModel(subject.model, source=subject.source)
    rounds = [{0: (Draft(), Verdict((), last))}, {0: _tree(subject)}]
    return _differ(read([Text(CachedSession(cached, start), start)], rounds, subject.plain))


def _batch_differs(subject: _Subject, *, branches: bool) -> bool:
    """Returns whether the logits of two texts, the second a part of the first, are wrong together.

    There is a rollback between two passes. branches: whether one of the drafts is a tree.
    """
    text = subject.text
    one, two, three, four = text[-TAIL:]
    long = _tree(subject) if branches else (Draft.chain((one, two)), Verdict((0, 1), three))
    rounds = [
        {0: long, 1: (Draft.chain(text[2:3]), Verdict((), text[2]))},
        {0: (Draft.chain((four,)), Verdict((), four)), 1: (Draft.chain(text[3:4]), Verdict((), 0))},
    ]
    prompts = [text[:-TAIL], text[:2]]
    opened = open_sessions(subject.model, prompts, frozenset())
    texts = [Text(session, prompt) for session, prompt in zip(opened, prompts, strict=True)]
    return _differ(read(texts, rounds, subject.plain, score_sessions))


def _tree(subject: _Subject) -> Round:
    """Returns a tree of two paths, of which the later one is the text's."""
    one, two, three, _ = subject.text[-TAIL:]
    other, another, *_ = subject.other[-TAIL:]
    tokens = (other, one, another, two)
    return Draft(tokens, (ROOT, ROOT, 0, 1), (None,) * 4), Verdict((1, 3), three)


def _differ(readings: Iterable[Reading]) -> bool:
    rows, expected = zip(*((reading.rows, reading.expected) for reading in readings), strict=True)
    return differ(torch.cat(rows), torch.cat(expected))


def _uncut(model: Model) -> str:
    """Returns why a model's first layers don't work as a model; "" if they do."""
    layers = depth(model)
    if layers < 2:
        return "it has a single layer"
    try:
        first_layers(model, layers // 2)
    except ConfigError:
        return "it can't be cut after its first layers"
    except Exception as error:  # noqa: BLE001  whatever a model may raise
        return f"it can't be read by its first layers: {_line(error)}"
    return ""


def _failure(differs: Callable[[], bool], what: str) -> str:
    """Returns why a test is not passed; "" if it is."""
    try:
        if differs():
            return f"it reads {what} differently from single texts: it ignores a mask or positions"
    except Exception as error:  # noqa: BLE001  whatever a model may raise
        return f"it can't read {what}: {_line(error)}"
    return ""


def _line(error: Exception) -> str:
    """Returns what a model raised; raises it if that says nothing of the model."""
    if is_cut_off():
        raise error
    if isinstance(error, TargetError):
        return str(error)
    return f"{type(error).__name__}: {message_of(error)[:120]}"
