"""Speculative beam search: one target pass scores the beams of several steps, as drafted."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, final

import torch

from outrider.base.bounds import Count, checked
from outrider.base.calling import calling
from outrider.base.errors import require
from outrider.contract.drafter import Drafter
from outrider.contract.target import Target, check_finite
from outrider.decoding.batches.batch_target import Path, PathScorer
from outrider.decoding.batches.batched import batched
from outrider.decoding.calls import encoded, opened
from outrider.decoding.clock import now
from outrider.extras.beams.draft import BeamDrafter, fit
from outrider.extras.beams.search import Rules, State, advance, begin
from outrider.plugins.parts import make


@final
@dataclass(frozen=True, slots=True)
class Beams:
    """The best beams of a search, best first, and what the search cost.

    tokens: the ids of each beam after the prompt, with the id that ended it.
    texts: the same as characters; empty if the target has no tokenizer.
    scores: log-probabilities / length ** length_penalty, transformers' `sequences_scores`.
    rounds: the number of steps that each target call allowed, between 1 and gamma + 1.
    seconds: the time of each phase: draft, score and search.
    """

    tokens: tuple[Path, ...]
    texts: tuple[str, ...]
    scores: tuple[float, ...]
    rounds: tuple[int, ...]
    seconds: dict[str, float]

    @property
    def steps(self) -> int:
        """Returns the number of target calls that plain beam search takes, one for each step."""
        return sum(self.rounds)

    @property
    def saved(self) -> int:
        """Returns how many of these target calls were saved."""
        return self.steps - len(self.rounds)


@checked()
def beam_search(  # noqa: PLR0913  the parameters of transformers' beam search, by name
    target: Target | str,
    prompt: str | Sequence[int],
    drafter: Drafter | str = "small_lm",
    *,
    width: Count = 4,
    draft_width: int | None = None,
    gamma: Count = 3,
    max_new_tokens: Count = 128,
    length_penalty: float = 1.0,
    early_stopping: bool | Literal["never"] = False,
    num_return_sequences: Count = 1,
    chat: bool = False,
) -> Beams:
    """Returns the beams that transformers' beam search finds, in fewer target calls.

    >>> beam_search("smollm2", "List the numbers to 30.", width=4, draft_width=6, gamma=3).texts

    The drafter runs its own beams for gamma steps. The target scores all of them in one pass, and
    the search advances as long as its running beams are among those scored (2211.17192, A.4). The
    drafter changes the number of target calls, never the result.

    drafter: a name or an instance. It must write chains and need nothing but tokens.
    draft_width: the number of the drafter's beams (u), at least `width` (w). Defaults to 2 w.
    gamma: the number of steps that the drafter runs ahead.
    width, length_penalty, early_stopping, num_return_sequences: as in transformers, where `width`
        is called `num_beams`.

    Raises:
        ConfigError: at the call: a setting is invalid, or the parts don't fit together.
        DrafterError, TargetError: during the search.
    """
    rules = Rules(width, length_penalty, early_stopping)
    draft_width = 2 * width if draft_width is None else draft_width
    expected = f"a whole number of at least the width, {width}"
    require(draft_width >= width, "draft_width", draft_width, expected)
    count = num_return_sequences
    require(count <= width, "num_return_sequences", count, f"between 1 and the width, {width}")
    model: Target = make("target", target)
    writer: Drafter = make("drafter", drafter)
    ids = encoded(model, prompt, chat=chat)
    fit(model, writer)
    search = _Search(
        rules=rules,
        target=model,
        beam_drafter=BeamDrafter(opened(writer), ids, draft_width, model.eos, model.vocab_size),
        score=batched(model).path_scorer(ids),
        gamma=gamma,
        longest=min(max_new_tokens, (model.max_length or len(ids) + max_new_tokens) - len(ids)),
    )
    state = begin(width)
    while not state.over:
        state = search.round(state)
    best = state.finished[:num_return_sequences]
    return Beams(
        tokens=best,
        texts=tuple(_decoded(model, path) for path in best),
        scores=tuple(state.values[:num_return_sequences].tolist()),
        rounds=tuple(search.rounds),
        seconds=search.seconds,
    )


@final
@dataclass(frozen=True, slots=True)
class _Search:
    """A search in progress; `rounds` and `seconds` fill up as it goes on."""

    rules: Rules
    target: Target
    beam_drafter: BeamDrafter
    score: PathScorer
    gamma: int
    longest: int
    rounds: list[int] = field(default_factory=list)
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("draft", "score", "search"), 0.0)
    )

    def round(self, state: State) -> State:
        """Returns the state after all the steps that one target call allows."""
        began = now()
        depth = min(self.gamma, self.longest - len(state.running[0]) - 1)
        drafted = self.beam_drafter.run_ahead(state, depth)
        paths = list(dict.fromkeys([*state.running, *(path for step in drafted for path in step)]))
        drafted_at = now()
        with calling("target", self.target):
            logits_after = dict(zip(paths, self.score(paths), strict=True))
        scored_at = now()
        steps = 0
        while not state.over and all(path in logits_after for path in state.running):
            logits = torch.stack([logits_after[path] for path in state.running]).cpu()
            check_finite(logits)
            state = advance(state, logits, self.rules, self.beam_drafter.eos, self.longest)
            steps += 1
        self.rounds.append(steps)
        self.seconds["draft"] += drafted_at - began
        self.seconds["score"] += scored_at - drafted_at
        self.seconds["search"] += now() - scored_at
        return state


def _decoded(target: Target, path: Path) -> str:
    """Returns the characters of some ids; none without a tokenizer."""
    decode = getattr(target.tokenizer, "decode", None)
    return str(decode(list(path), skip_special_tokens=True)) if decode else ""
