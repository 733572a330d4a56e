"""Texts for a target, its plain passes, and what counts as the same."""

from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import islice

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.context import Features
from outrider.contract.draft import ROOT, Draft, Logits, Verdict
from outrider.contract.target import Session, Target
from outrider.targets.readings import Plain, Reading, Text, read, spread_over
from outrider.testing.conditionals import Conditionals

LENGTHS = (18, 3, 9)
"""How many tokens the prompts have."""

NEW = 9
"""How many tokens come after a prompt, at most."""

WRITTEN = 5
"""How many tokens a target writes by itself."""

APART = {torch.float64: 1e-6, torch.float16: 0.1, torch.bfloat16: 0.2}
"""How far apart two distributions may be that differ by rounding alone; 1e-3 in float32."""

TREE = (ROOT, ROOT, 0, 1, 1, 3)
"""The parents of a tree's nodes. The nodes 1, 3 and 5 are a path, and not the first of the tree."""


def ordinary_ids(target: Target, count: int) -> list[int]:
    """Returns ids that end no text and differ from their neighbours, if there are two such ids."""
    ids = [token for token in range(target.vocab_size) if token not in target.eos]
    assert ids, "expected an id that is not in eos"
    return spread_over(ids, count)


def prompts_for(target: Target) -> list[list[int]]:
    """Returns prompts of several lengths that leave room for `NEW` tokens.

    Raises `AssertionError` if the target's texts are too short for it.
    """
    room = max(LENGTHS) + NEW
    if target.max_length is not None:
        assert target.max_length >= room, (
            f"max_length is {target.max_length}: the checks need texts of {room} tokens"
        )
    ids = iter(ordinary_ids(target, sum(LENGTHS)))
    return [list(islice(ids, length)) for length in LENGTHS]


def next_tokens(target: Target) -> list[int]:
    """Returns `NEW` ids to continue a prompt with."""
    return ordinary_ids(target, sum(LENGTHS) + NEW)[-NEW:]


def others(target: Target, tokens: Sequence[int]) -> list[int]:
    """Returns another id for each token, if the vocabulary has one that ends no text."""
    ids = ordinary_ids(target, 3)
    return [next((other for other in ids if other != token), token) for token in tokens]


def tree(tokens: Sequence[int]) -> Draft:
    """Returns a draft with several branches."""
    return Draft(tuple(tokens[: len(TREE)]), TREE, (None,) * len(TREE))


def plain_rows(target: Target) -> Plain:
    """Returns what finds the logits after a prompt and further tokens, read in one pass alone."""
    behind = cache(partial(Conditionals, target))
    return lambda prompt, tokens: behind(tuple(prompt)).after(tuple(tokens))


def token_by_token(
    target: Target, prompt: Sequence[int], tokens: Sequence[int]
) -> Float[Tensor, "tokens+1 vocab"]:
    """Returns the logits after a prompt and after each further token, from a pass for each."""
    session = target.open(prompt)
    rows = [session.score(Draft())]
    for token in tokens:
        session.commit(Verdict((), token))
        rows.append(session.score(Draft()))
    return torch.cat(rows)


def assert_right(readings: Iterable[Reading]) -> None:
    """Raises AssertionError unless all readings have the distributions of plain passes."""
    for reading in readings:
        rows, expected, case = reading.rows, reading.expected, reading.case
        assert rows.shape == expected.shape, (
            f"logits of shape {tuple(rows.shape)}: expected {tuple(expected.shape)} ({case})"
        )
        assert_near(rows.double().softmax(-1), expected.double().softmax(-1), expected.dtype, case)


def assert_resumed(target: Target, prompt: Sequence[int], draft: Draft, computed: Features) -> None:
    """Raises AssertionError unless a target scores a chain and what follows as by all its layers.

    computed: what the first layers give for the draft, as `Session.resume` takes it.
    """
    session = target.open(prompt[:-1])
    session.score(Draft())
    session.commit(Verdict((), prompt[-1]))
    accepted = tuple(range(len(draft) - 1))
    rounds = [{0: (draft, Verdict(accepted, 0))}, {0: (Draft(), Verdict((), 0))}]

    def resume(sessions: Sequence[Session], drafts: Sequence[Draft]) -> list[Logits]:
        return [sessions[0].resume(drafts[0], computed if drafts[0] else {})]

    assert_right(read([Text(session, prompt)], rounds, plain_rows(target), resume))


def assert_near(
    probs: Float[Tensor, "rows vocab"],
    wanted: Float[Tensor, "rows vocab"],
    dtype: torch.dtype,
    case: str,
) -> None:
    """Raises AssertionError unless distributions are the same but for rounding in `dtype`.

    They are compared by total variation. In half precision rounding may send a single token far
    off, to another expert, so that half of the rows count.
    """
    apart = (probs.to(wanted.device) - wanted).abs().sum(-1) / 2
    worst = float(apart.median() if tolerance(dtype) > 1e-2 else apart.max())
    assert worst <= tolerance(dtype), (
        f"distributions are {worst:.1e} apart (total variation): expected the same but for"
        f" rounding, {tolerance(dtype):.0e} ({case})"
    )


def tolerance(dtype: torch.dtype) -> float:
    """Returns how far apart distributions may be by rounding alone."""
    return APART.get(dtype, 1e-3)
