"""Logits of drafts held against full passes over each path, which a text may hide."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from outrider import Draft, Target, Verdict
from outrider.decoding.batches.batch_target import batched
from tiny.subject import Subject

ROOT = -1
CHAIN = ((9, 22, 31, 17), (ROOT, 0, 1, 2))
TREE = ((9, 22, 31, 17, 40, 12), (ROOT, ROOT, 0, 1, 1, 3))
"""Tokens and parents. Of the tree the nodes 1, 3 and 5 are a path, and no beginning of it."""


def differences(subject: Subject, target: Target) -> Iterator[tuple[str, Any]]:
    """Yields the name of a check, and what returns how far its logits are off."""
    first, short, third = subject.prompts
    yield "chain", lambda: _alone(subject, target, first, (CHAIN,), ())
    yield "chain after a rejection", lambda: _alone(subject, target, first, (CHAIN,) * 2, (0, 1))
    yield "across the window", lambda: _alone(subject, target, short, (CHAIN,) * 3, (0, 1, 2))
    yield "tree", lambda: _alone(subject, target, third, (TREE,), ())
    yield "tree after a tree", lambda: _alone(subject, target, third, (TREE,) * 3, (1, 3, 5))
    yield "batch of chains", lambda: _together(subject, target, (CHAIN,) * 2, (0, 1))
    yield "batch of trees", lambda: _together(subject, target, (TREE,) * 2, (1, 3))


Shape = tuple[Sequence[int], Sequence[int]]


def _alone(
    subject: Subject,
    target: Target,
    prompt: list[int],
    shapes: Sequence[Shape],
    accepted: tuple[int, ...],
) -> float:
    """Returns the largest difference over drafts that follow each other in one text."""
    session, text, worst = target.open(prompt), _start(subject, prompt), 0.0
    for shape in shapes:
        draft = _draft(shape)
        worst = max(worst, _off(subject, prompt, text, draft, session.score(draft)))
        session.commit(Verdict(accepted, 50))
        text = text + [draft.tokens[node] for node in accepted] + [50]
    return worst


def _together(
    subject: Subject, target: Target, shapes: Sequence[Shape], accepted: tuple[int, ...]
) -> float:
    """Returns the same over the texts of a batch, one of which accepts and the others don't."""
    serving = batched(target)
    sessions = serving.open_together(subject.prompts)
    texts = [_start(subject, prompt) for prompt in subject.prompts]
    worst = 0.0
    for shape in shapes:
        draft = _draft(shape)
        scores = serving.score_together(sessions, [draft] * len(sessions))
        for number, (session, logits) in enumerate(zip(sessions, scores, strict=True)):
            prompt = subject.prompts[number]
            worst = max(worst, _off(subject, prompt, texts[number], draft, logits))
            kept = accepted if number == 1 else ()
            session.commit(Verdict(kept, 50))
            texts[number] = texts[number] + [draft.tokens[node] for node in kept] + [50]
    return worst


def _start(subject: Subject, prompt: list[int]) -> list[int]:
    return list(subject.start or prompt)


def _draft(shape: Shape) -> Draft:
    tokens, parents = shape
    return Draft(tuple(tokens), tuple(parents), (None,) * len(tokens))


@torch.no_grad()
def _off(
    subject: Subject, prompt: list[int], text: list[int], draft: Draft, logits: Tensor
) -> float:
    """Returns the largest difference of centred logits, relative to their spread."""
    worst = 0.0
    for node in range(-1, len(draft)):
        path = [] if node < 0 else [draft.tokens[step] for step in draft.path(node)]
        ids = torch.tensor([text + path])
        given = {"input_ids": ids}
        if subject.encodes:
            given = {"input_ids": torch.tensor([prompt]), "decoder_input_ids": ids}
        right = subject.model(**given, use_cache=False).logits[0, -1]
        gap = (logits[node + 1] - right).abs().max() / right.std()
        worst = max(worst, float(gap))
    return worst
