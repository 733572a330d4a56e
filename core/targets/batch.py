"""Batch: many texts written at once by a transformers model, without a draft."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import TARGET, Chance
from outrider.contract.draft import Draft
from outrider.contract.sampling import Sampling, likeliest
from outrider.contract.target import check_finite
from outrider.contract.verifier import Verdict
from outrider.runtime.encoded import EncodedCache, decoder_start
from outrider.runtime.passes import PassInput
from outrider.runtime.step import run_pass
from outrider.runtime.windows import context_window
from outrider.targets.together import (
    TogetherSession,
    join_sessions,
    open_sessions,
    score_sessions,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WIDTH = 64
"""The most texts in progress at once; more would hardly be faster, and take more memory."""


@torch.no_grad()
def write(
    model: "PreTrainedModel",
    eos: frozenset[int],
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    chances: Sequence[Chance],
    *,
    max_new_tokens: int,
) -> list[list[int]]:
    """Returns a decoder's continuation of each prompt, up to and including an id of `eos`.

    As one text ends, the next joins. A text's neighbours change its logits by rounding alone.

    chances: one for each prompt.
    """
    texts: list[list[int]] = [[] for _ in prompts]
    parts = [chance.named(TARGET) for chance in chances]
    limits = _limits(model, [len(prompt) for prompt in prompts], max_new_tokens)
    waiting = iter(range(len(prompts)))
    batch: dict[int, TogetherSession] = {}
    while _fill(batch, model, prompts, waiting):
        sessions = list(batch.values())
        rows = torch.cat(score_sessions(sessions, [Draft()] * len(sessions)))
        tokens = _draw([parts[number] for number in batch], sampling, rows)
        for number, token in zip(list(batch), tokens, strict=True):
            texts[number].append(token)
            batch[number].commit(Verdict((), token))
            if len(texts[number]) == limits[number] or token in eos:
                del batch[number]
    return texts


def _fill(
    batch: dict[int, TogetherSession],
    model: "PreTrainedModel",
    prompts: Sequence[Sequence[int]],
    waiting: Iterator[int],
) -> bool:
    """Adds sessions for prompts that wait, by number; returns whether there are any sessions."""
    numbers = list(islice(waiting, WIDTH - len(batch)))
    if batch:
        for number in numbers:
            batch[number] = join_sessions(list(batch.values()), prompts[number])
    elif numbers:
        opened = open_sessions(model, [prompts[number] for number in numbers], frozenset())
        batch |= dict(zip(numbers, opened, strict=True))
    return bool(batch)


@torch.no_grad()
def write_encoded(
    model: "PreTrainedModel",
    eos: frozenset[int],
    sources: Sequence[Sequence[int]],
    sampling: Sampling,
    chances: Sequence[Chance],
    *,
    max_new_tokens: int,
) -> list[list[int]]:
    """Returns an encoder-decoder's text about each source, as `write` does, all at once."""
    start = decoder_start(model)
    texts: list[list[int]] = [[] for _ in sources]
    parts = [chance.named(TARGET) for chance in chances]
    (limit,) = _limits(model, [len(start)], max_new_tokens)
    cache, running = EncodedCache(model, sources), list(range(len(sources)))
    ids = torch.tensor([start] * len(sources), device=model.device)
    while running:
        rows = run_pass(model, cache, PassInput(ids, 1)).logits[:, -1]
        drawn = _draw([parts[number] for number in running], sampling, rows)
        for number, token in zip(running, drawn, strict=True):
            texts[number].append(token)
        active = [
            row
            for row, number in enumerate(running)
            if len(texts[number]) < limit and texts[number][-1] not in eos
        ]
        if 0 < len(active) < len(running):
            cache.batch_select_indices(torch.tensor(active, device=model.device))
        running = [running[row] for row in active]
        ids = torch.tensor([[texts[number][-1]] for number in running], device=model.device)
    return texts


def _draw(
    chances: Sequence[Chance], sampling: Sampling, logits: Float[Tensor, "texts vocab"]
) -> list[int]:
    """Returns the next token of each text.

    Raises:
        TargetError: a row of logits is no distribution.
    """
    check_finite(logits)
    if sampling.greedy:  # what a draw from a point mass would give, without making it
        return [int(token) for token in likeliest(logits)]
    return [
        chance.categorical(probs)
        for chance, probs in zip(chances, sampling.probs(logits), strict=True)
    ]


def _limits(model: "PreTrainedModel", starts: Sequence[int], max_new_tokens: int) -> list[int]:
    """Returns how many tokens each text may have, within the model's context window.

    starts: how many tokens each text begins with.
    """
    longest = context_window(model)
    if longest is None:
        return [max_new_tokens] * len(starts)
    return [min(max_new_tokens, longest - start) for start in starts]
