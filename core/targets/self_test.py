"""Self-test: a model shows in a few tiny passes which of its own abilities can be relied on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.draft import ROOT, Draft
from outrider.contract.target import check_finite
from outrider.contract.verifier import Verdict
from outrider.errors import TargetError
from outrider.runtime import flat
from outrider.runtime.cached_model import CachedModel
from outrider.runtime.encoded import EncodedCache
from outrider.runtime.launch import lost
from outrider.runtime.passes import PassInput
from outrider.runtime.ranks import is_sharded
from outrider.runtime.static import is_compiled
from outrider.runtime.step import new_cache, run_pass
from outrider.runtime.tree_mask import tree_mask
from outrider.runtime.windows import context_window
from outrider.targets.batch import PaddedBatch
from outrider.targets.together import TogetherSession, open_sessions, score_sessions
from outrider.targets.trial import beyond_a_test, differ, ordinary_tokens, short_windows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TAIL = 4
"""The tokens at the end of the test's text, which are read in several ways."""

HEAD = 3
"""The tokens before them, at least."""


@final
@dataclass(frozen=True, slots=True)
class SelfTest:
    """What does not hold for a model, each in words that follow "since"; "" for what holds.

    trees: a tree is scored as its paths are.
    batches: texts of different lengths are scored together as each of them is alone.
    padding: so they are when the shorter ones are padded on the left.
    """

    trees: str = ""
    batches: str = ""
    padding: str = ""


@final
@dataclass(frozen=True, slots=True)
class _Subject:
    """A model and a text, with what the model says of it.

    text: the start tokens of an encoder-decoder, if it is one, and ordinary tokens.
    others: tokens that differ from the first of the text's tail.
    source: what the encoder reads.
    logits: of the text, read in one pass. other_logits: of `others`, after the text's head.
    """

    model: "PreTrainedModel"
    text: list[int]
    others: list[int]
    source: list[int] | None
    logits: Float[Tensor, "tokens vocab"]
    other_logits: Float[Tensor, "others vocab"]

    @property
    def head(self) -> int:
        """Returns how many tokens come before the tail."""
        return len(self.text) - TAIL


_results: "WeakKeyDictionary[PreTrainedModel, SelfTest]" = WeakKeyDictionary()


def self_test(model: "PreTrainedModel", start: Sequence[int] = ()) -> SelfTest:
    """Returns what holds for a model, tested once.

    The test's text goes past a window of up to 64 tokens. A longer window is made shorter for the
    test: the masks are the same computation. The flat pass, packed or compiled, is not tested: its
    masks and positions are Outrider's own, and each size of pass would keep a kernel or a graph.

    start: the first tokens of an encoder-decoder's text.

    Raises:
        TargetError: the model's text would depend on the drafts.
    """
    if is_compiled(model) or flat.is_used_for(model):
        return SelfTest()
    if model not in _results:
        with short_windows(model) as window:
            _results[model] = _tested(model, list(start), window)
    return _results[model]


@torch.no_grad()
def _tested(model: "PreTrainedModel", start: list[int], window: int) -> SelfTest:
    length = max(len(start), HEAD, window + 1) + TAIL
    length = min(length, context_window(model) or length)
    if length < max(len(start), HEAD) + TAIL:  # there is no room for a test, nor for much else
        return SelfTest()
    cached, subject = _read_in_parts(model, start, length)
    if reason := beyond_a_test(model):
        return SelfTest(reason, reason, reason)
    alone = is_sharded(model) or subject.source is not None
    # A batch of trees shows all at once; only if it fails, each is tested by itself.
    if not alone and not _failure(lambda: _batch(subject, branches=True), "a batch"):
        return SelfTest(padding=_failure(lambda: _padded(subject), "padded texts"))
    trees = _failure(lambda: _tree(cached, subject), "a tree")
    if is_sharded(model):
        return SelfTest(trees, *["its parts are on several ranks"] * 2)
    if subject.source is not None:
        padding = _failure(lambda: _sources(subject, len(start)), "several sources")
        return SelfTest(trees, "it has an encoder", padding)
    batches = _failure(lambda: _batch(subject, branches=not trees), "a batch")
    return SelfTest(trees, batches, _failure(lambda: _padded(subject, more=True), "padded texts"))


def _read_in_parts(
    model: "PreTrainedModel", start: list[int], length: int
) -> tuple[CachedModel, _Subject]:
    """Returns a subject, and its text in a cache, after passes of several sizes and a rollback."""
    name = type(model).__name__
    drawn = ordinary_tokens(model, length - len(start) + 2)
    text, others = start + drawn[:-2], drawn[-2:]
    source = drawn[:6] if start else None
    head = length - TAIL
    try:
        logits, other_logits = _whole(
            model, [text, text[:head] + others + text[head + 2 :]], source
        )
        cached = CachedModel(model, source=source)
        rows = [cached.feed(text[:head] + others, head + 2)[:head]]
        grown = cached.length == head + 2
        if grown:
            cached.drop(2)
            rows += [cached.feed(text[head : head + 1], 1), cached.feed(text[head + 1 :], TAIL - 1)]
            grown = cached.length == length
    except Exception as error:  # whatever a model may raise
        if lost():
            raise
        raise TargetError(
            f"model {name} can't be read in parts: {_line(error)}: expected a decoder that keeps"
            " its keys and values in the cache that it is given"
        ) from None
    check_finite(logits)
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
    subject = _Subject(model, text, others, source, logits, other_logits[head : head + 2])
    return cached, subject


def _whole(
    model: "PreTrainedModel", texts: Sequence[Sequence[int]], source: list[int] | None
) -> Float[Tensor, "texts tokens vocab"]:
    """Returns the logits of texts of one length, read in one pass."""
    ids = torch.tensor(texts, device=model.device)
    sources = [source or []] * len(texts)
    cache = new_cache(model) if source is None else EncodedCache(model, sources)
    return run_pass(model, cache, PassInput(ids, ids.shape[1])).logits


def _tree(cached: CachedModel, subject: _Subject) -> bool:
    """Returns whether a tree is off, behind a text whose last token is read along with it."""
    (one, two, *_), head = subject.text[-TAIL:], subject.head
    other, another = subject.others
    cached.drop(TAIL + 1)
    tree = tree_mask((ROOT, ROOT, 0, 1), pending=1, cached=head - 1)
    rows = cached.feed_tree([subject.text[head - 1], other, one, another, two], 5, tree)
    logits, others = subject.logits, subject.other_logits
    wanted = [logits[head - 1], others[0], logits[head], others[1], logits[head + 1]]
    return differ(rows, torch.stack(wanted))


def _batch(subject: _Subject, *, branches: bool) -> bool:
    """Returns whether two texts of a batch are off, before and after a rollback."""
    (one, two, three, four), head, text = subject.text[-TAIL:], subject.head, subject.text
    long, short = opened = [
        session
        for session in open_sessions(subject.model, [text[:head], text[:2]], frozenset())
        if isinstance(session, TogetherSession)
    ]
    other, another = subject.others
    draft, path = Draft((one, two), (ROOT, 0), (None,) * 2), (0, 1)
    if branches:
        draft = Draft((other, one, another, two), (ROOT, ROOT, 0, 1), (None,) * 4)
        path = (1, 3)
    rows, short_rows = score_sessions(opened, [draft, _chain(text[2])])
    on_path = rows[[0, *(node + 1 for node in path)]]
    long.commit(Verdict(path, three))
    short.commit(Verdict((), text[2]))
    more, short_more = score_sessions(opened, [_chain(four), _chain(text[3])])
    read = torch.cat([on_path, more, short_rows, short_more])
    logits = subject.logits
    return differ(read, torch.cat([logits[head - 1 :], logits[1:3], logits[2:4]]))


def _chain(token: int) -> Draft:
    return Draft((token,), (ROOT,), (None,))


def _padded(subject: _Subject, *, more: bool = False) -> bool:
    """Returns whether two texts are off, of which one is padded on the left.

    more: whether to read further tokens, if no batch has shown that masks hold there too.
    """
    text, head, logits = subject.text, subject.head, subject.logits
    batch = PaddedBatch(subject.model, [text[:head], text[:2]], None)
    off = differ(batch.logits(), logits[[head - 1, 1]])
    if off or not more:
        return off
    batch.go_on([[text[head]], [text[2]]])
    return differ(batch.logits(), logits[[head, 2]])


def _sources(subject: _Subject, start: int) -> bool:
    """Returns whether texts about two sources of different lengths are off."""
    model, text = subject.model, subject.text[:start]
    sources = [subject.source or [], (subject.source or [])[:-2]]
    batch = PaddedBatch(model, [text, text], EncodedCache(model, sources))
    alone = CachedModel(model, source=sources[1]).feed(text, 1)
    return differ(batch.logits(), torch.cat([subject.logits[start - 1 : start], alone]))


def _failure(differs: Callable[[], bool], what: str) -> str:
    """Returns why a test is not passed; "" if it is."""
    try:
        if differs():
            return f"it reads {what} otherwise than one text: it ignores a mask or positions"
    except Exception as error:  # whatever a model may raise
        if lost():  # another rank is gone, which says nothing of the model
            raise
        return f"it can't read {what}: {_line(error)}"
    return ""


def _line(error: Exception) -> str:
    if isinstance(error, TargetError):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
