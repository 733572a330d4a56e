"""One step of beam search, by the rules of transformers."""

from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from outrider.base.bounds import Count, checked
from outrider.decoding.batches.batch_target import Path

PENALTY = -1e9
"""Added to a score to take its beam out of the running, as transformers does."""


@final
@checked()
@dataclass(frozen=True, slots=True)
class Rules:
    """How beams are chosen, with the names and meanings of transformers.

    width: the number of beams, `num_beams` in transformers.
    length_penalty: a finished beam's score is its log-probability / length ** length_penalty.
    early_stopping: True stops at `width` finished beams, False once no running beam is likely to
        beat the finished ones, "never" once none possibly can.

    Raises `ConfigError` for an invalid value.
    """

    width: Count = 4
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False


@final
@dataclass(frozen=True, slots=True)
class State:
    """The running beams and the finished ones, best first.

    running, scores: the ids of the running beams after the prompt, and their log-probabilities.
    finished, values: the ids of the finished beams, and their scores with the length penalty.
    ended: which entries of `finished` hold a beam; the others are still free.
    improvable: whether a running beam may still beat a finished one.
    over: whether the search has ended.
    """

    running: tuple[Path, ...]
    scores: Float[Tensor, "width"]
    finished: tuple[Path, ...]
    values: Float[Tensor, "width"]
    ended: Bool[Tensor, "width"]
    improvable: bool = True
    over: bool = False


def begin(width: int) -> State:
    """Returns the state before the first step: one empty beam, and copies that don't count."""
    scores = torch.full((width,), PENALTY)
    scores[0] = 0
    ended = torch.zeros(width, dtype=torch.bool)
    return State(((),) * width, scores, ((),) * width, torch.full((width,), PENALTY), ended)


def advance(
    state: State,
    logits: Float[Tensor, "width vocab"],
    rules: Rules,
    eos: frozenset[int],
    longest: int,
) -> State:
    """Returns the state one token later (transformers 5.23, `_beam_search`).

    logits: the target's, after each running beam.
    longest: the greatest length of a beam, in tokens.
    """
    width, vocab_size = logits.shape
    total = (logits.float().log_softmax(-1) + state.scores[:, None]).reshape(-1)
    # Enough candidates that `width` of them go on even if all the others end.
    best, indices = total.topk(max(2, 1 + len(eos)) * width)
    candidates = [
        (*state.running[index // vocab_size], index % vocab_size) for index in indices.tolist()
    ]
    length = len(candidates[0])
    ends = torch.tensor([path[-1] in eos or length >= longest for path in candidates])
    scores = best + ends * PENALTY
    running = scores.topk(width).indices

    newly_ended = ends & (torch.arange(len(candidates)) < width)
    values = best / length**rules.length_penalty
    values += (bool(state.ended.all()) and rules.early_stopping is True) * PENALTY
    values += (not state.improvable) * PENALTY
    values += ~newly_ended * PENALTY
    values = torch.cat((state.values, values))
    finished = values.topk(width).indices
    values, ended = values[finished], torch.cat((state.ended, newly_ended))[finished]

    never = rules.early_stopping == "never" and rules.length_penalty > 0
    best_length = (longest if never else length) ** rules.length_penalty
    worst = torch.where(ended, values.min(), PENALTY)
    improvable = state.improvable and bool((scores[running[0]] / best_length > worst).any())
    full = bool(ended.all()) and rules.early_stopping is True
    finished_or_new = [*state.finished, *candidates]
    return State(
        running=tuple(candidates[index] for index in running.tolist()),
        scores=scores[running],
        finished=tuple(finished_or_new[index] for index in finished.tolist()),
        values=values,
        ended=ended,
        improvable=improvable,
        over=not improvable or full or bool(ends.all()),
    )
