"""A step of beam search, with transformers' own rules for what goes on and what is finished."""

from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from outrider.errors import is_int, is_number, require

Path = tuple[int, ...]
"""The ids of a beam, without the prompt."""

OUT = -1e9
"""What a score is lowered by to take its beam out, as transformers has it."""


@final
@dataclass(frozen=True, slots=True)
class Rules:
    """How beams are chosen, with transformers' names and meanings.

    width: the beams that run side by side, `num_beams`.
    length_penalty: a finished beam's score is its log-probability over length ** length_penalty.
    early_stopping: True ends with `width` finished beams, False once no running beam is likely to
        be better than the finished ones, "never" once none can be.

    Raises `ConfigError` for a value that makes no sense.
    """

    width: int = 4
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False

    def __post_init__(self) -> None:
        enough = is_int(self.width) and self.width >= 1
        require(enough, "width", self.width, "a whole number of at least 1")
        require(is_number(self.length_penalty), "length_penalty", self.length_penalty, "a number")
        known = self.early_stopping in (True, False, "never")
        require(known, "early_stopping", self.early_stopping, "true, false or never")


@final
@dataclass(frozen=True, slots=True)
class State:
    """Beams under way and finished ones, best first.

    running, scores: the ids and log-probabilities of the beams that go on.
    finished, values: those that ended, and their scores with the length's penalty; places that
        are still free have no `ended`.
    improvable: whether a running beam may yet be better than a finished one.
    over: whether the search is at its end.
    """

    running: tuple[Path, ...]
    scores: Float[Tensor, "width"]
    finished: tuple[Path, ...]
    values: Float[Tensor, "width"]
    ended: Bool[Tensor, "width"]
    improvable: bool = True
    over: bool = False


def begin(width: int) -> State:
    """Returns the state before the first step: one beam that counts, and copies that do not."""
    scores = torch.full((width,), OUT)
    scores[0] = 0
    nothing = torch.zeros(width, dtype=torch.bool)
    return State(((),) * width, scores, ((),) * width, torch.full((width,), OUT), nothing)


def advance(
    state: State,
    logits: Float[Tensor, "width vocab"],
    rules: Rules,
    eos: frozenset[int],
    longest: int,
) -> State:
    """Returns the state a token later (transformers 5.23, `_beam_search`).

    logits: the target's, after each running beam.
    longest: the length at which a beam ends, in tokens.
    """
    width, vocab = logits.shape
    total = (logits.float().log_softmax(-1) + state.scores[:, None]).reshape(-1)
    # So many that `width` are left to go on if all the others end.
    best, places = total.topk(max(2, 1 + len(eos)) * width)
    found = [(*state.running[place // vocab], place % vocab) for place in places.tolist()]
    length = len(found[0])
    hits = torch.tensor([path[-1] in eos or length >= longest for path in found])
    onward = best + hits * OUT
    going = onward.topk(width).indices

    ending = hits & (torch.arange(len(found)) < width)
    values = best / length**rules.length_penalty
    values += (bool(state.ended.all()) and rules.early_stopping is True) * OUT
    values += (not state.improvable) * OUT
    values += ~ending * OUT
    values = torch.cat((state.values, values))
    chosen = values.topk(width).indices
    values, ended = values[chosen], torch.cat((state.ended, ending))[chosen]

    never = rules.early_stopping == "never" and rules.length_penalty > 0
    reach = (longest if never else length) ** rules.length_penalty
    worst = torch.where(ended, values.min(), OUT)
    improvable = state.improvable and bool((onward[going[0]] / reach > worst).any())
    full = bool(ended.all()) and rules.early_stopping is True
    everything = [*state.finished, *found]
    return State(
        running=tuple(found[each] for each in going.tolist()),
        scores=onward[going],
        finished=tuple(everything[each] for each in chosen.tolist()),
        values=values,
        ended=ended,
        improvable=improvable,
        over=not improvable or full or bool(hits.all()),
    )
