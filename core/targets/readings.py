"""Readings of one text in several ways, each compared with a single pass over the whole text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.pretrained import Model
from outrider.contract.draft import ROOT, Draft
from outrider.contract.verifier import Verdict
from outrider.targets.batches.sessions import open_sessions, score_sessions
from outrider.targets.passes.cached_model import CachedModel
from outrider.targets.passes.encoded import EncodedCache
from outrider.targets.passes.pass_input import PassInput
from outrider.targets.passes.placement import home
from outrider.targets.passes.run_pass import new_cache, run_pass
from outrider.targets.passes.tree_mask import tree_mask
from outrider.targets.self_test_text import differ

TAIL = 4
"""The number of tokens at the end of the test's text, which are read in several ways."""

HEAD = 3
"""The least number of tokens before them."""


@final
@dataclass(frozen=True, slots=True)
class Subject:
    """A model and a text, with the model's logits.

    text: ordinary tokens, after the start tokens if the model is an encoder-decoder.
    others: two tokens that differ from the first two of the text's tail.
    source: the encoder's input.
    logits: those of the text, read in one pass.
    other_logits: those of `others`, after the text's head.
    """

    model: Model
    text: list[int]
    others: list[int]
    source: list[int] | None
    logits: Float[Tensor, "tokens vocab"]
    other_logits: Float[Tensor, "others vocab"]

    @property
    def head(self) -> int:
        """Returns how many tokens come before the tail."""
        return len(self.text) - TAIL


def read_at_once(
    model: Model, texts: Sequence[Sequence[int]], source: list[int] | None
) -> Float[Tensor, "texts tokens vocab"]:
    """Returns the logits of texts of one length, read in one pass."""
    ids = torch.tensor(texts, device=home(model))
    sources = [source or []] * len(texts)
    cache = new_cache(model) if source is None else EncodedCache(model, sources)
    return run_pass(model, cache, PassInput(ids, ids.shape[1])).logits


def tree_differs(cached: CachedModel, subject: Subject) -> bool:
    """Returns whether a tree's logits are wrong if a pass reads it with the text's last token."""
    (one, two, *_), head = subject.text[-TAIL:], subject.head
    other, another = subject.others
    cached.drop(TAIL + 1)
    tree = tree_mask((ROOT, ROOT, 0, 1), pending=1, cached=head - 1)
    rows = cached.feed_tree([subject.text[head - 1], other, one, another, two], 5, tree)
    logits, others = subject.logits, subject.other_logits
    expected = [logits[head - 1], others[0], logits[head], others[1], logits[head + 1]]
    return differ(rows, torch.stack(expected))


def batch_differs(subject: Subject, *, branches: bool) -> bool:
    """Returns whether the logits of two texts, the second a part of the first, are wrong together.

    There is a rollback between two passes.

    branches: whether the draft is a tree, in which `others` are siblings.
    """
    *start, one, two, three, four = text = subject.text
    long, short = opened = open_sessions(subject.model, [start, text[:2]], frozenset())
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
    logits = subject.logits
    read = torch.cat([on_path, more, short_rows, short_more])
    return differ(read, torch.cat([logits[len(start) - 1 :], logits[1:3], logits[2:4]]))


def _chain(token: int) -> Draft:
    return Draft((token,), (ROOT,), (None,))


def sources_differ(subject: Subject, start: int) -> bool:
    """Returns whether the logits of texts about sources of different lengths are wrong."""
    model, text = subject.model, subject.text[:start]
    sources = [subject.source or [], (subject.source or [])[:-2]]
    cache, ids = EncodedCache(model, sources), torch.tensor([text, text], device=home(model))
    rows = run_pass(model, cache, PassInput(ids, 1)).logits[:, -1]
    alone = CachedModel(model, source=sources[1]).feed(text, 1)
    return differ(rows, torch.cat([subject.logits[start - 1 : start], alone]))
