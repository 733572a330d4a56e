"""Speculative beam search: a drafter's beams are scored in one pass, and as many steps taken as they cover."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Literal, final

import torch

from outrider.contract.drafter import Drafter
from outrider.contract.target import Target, check_finite
from outrider.decoding.beams.draft import fit, layers
from outrider.decoding.beams.search import Path, Rules, advance, begin
from outrider.decoding.run import check_lengths
from outrider.errors import is_int, require
from outrider.plugins.registry import make


@final
@dataclass(frozen=True, slots=True)
class Beams:
    """The best beams of a search, best first, and what it took.

    tokens: the ids of each after the prompt, with the id that ended it.
    texts: the same as characters, empty without a tokenizer.
    scores: log-probabilities over length ** length_penalty, as transformers' `sequences_scores`.
    rounds: the steps that each target call brought, at least one and at most gamma + 1.
    seconds: of the phases draft, score and search.
    """

    tokens: tuple[Path, ...]
    texts: tuple[str, ...]
    scores: tuple[float, ...]
    rounds: tuple[int, ...]
    seconds: dict[str, float]

    @property
    def steps(self) -> int:
        """Returns the target calls that plain beam search takes, one a step."""
        return sum(self.rounds)

    @property
    def saved(self) -> int:
        """Returns how many fewer there were."""
        return self.steps - len(self.rounds)


def beam_search(
    target: Target | str,
    prompt: str | Sequence[int],
    drafter: Drafter | str = "small_lm",
    *,
    width: int = 4,
    draft_width: int | None = None,
    gamma: int = 3,
    max_new_tokens: int = 128,
    length_penalty: float = 1.0,
    early_stopping: bool | Literal["never"] = False,
    num_return_sequences: int = 1,
    chat: bool = False,
) -> Beams:
    """Returns the beams that transformers' beam search finds, in fewer target calls.

    >>> outrider.beam_search("smollm2", "Name three rivers.", width=4, draft_width=6, gamma=3).texts

    The drafter runs beams of its own for gamma steps; the target scores them in one pass, and a
    step after the first is taken while its running beams are among the drafter's (2211.17192, A.4).
    What the drafter does changes the number of calls and nothing else.

    drafter: one that sees tokens alone and writes chains, by name or as an instance.
    draft_width: of the drafter's beams (u), at least `width` (w); 2 w unless told.
    width, length_penalty, early_stopping, num_return_sequences: as in transformers, `num_beams`
        being the width.

    Raises:
        ConfigError: for what can't work.
        DrafterError, TargetError: on the way.
    """
    rules = Rules(width, length_penalty, early_stopping)
    check_lengths(gamma, None, max_new_tokens)
    draft_width = 2 * width if draft_width is None else draft_width
    wide = is_int(draft_width) and draft_width >= width
    require(wide, "draft_width", draft_width, f"a whole number of at least the width, {width}")
    some = is_int(num_return_sequences) and 1 <= num_return_sequences <= width
    require(some, "num_return_sequences", num_return_sequences, f"between 1 and the width, {width}")
    model: Target = make("target", target)
    writer: Drafter = make("drafter", drafter)
    ids = model.encode(prompt, chat=chat)
    fit(model, writer)
    score = model.path_scorer(ids)
    longest = min(max_new_tokens, (model.max_length or len(ids) + max_new_tokens) - len(ids))
    state, rounds = begin(width), list[int]()
    seconds = dict.fromkeys(("draft", "score", "search"), 0.0)
    while not state.over:
        began = perf_counter()
        depth = min(gamma, longest - len(state.running[0]) - 1)
        drafted = layers(writer, ids, state, draft_width, depth, model.eos, model.vocab_size)
        asked = list(dict.fromkeys([*state.running, *(path for each in drafted for path in each)]))
        written = perf_counter()
        rows = dict(zip(asked, score(asked), strict=True))
        scored = perf_counter()
        steps = 0
        while not state.over and all(path in rows for path in state.running):
            logits = torch.stack([rows[path] for path in state.running]).cpu()
            check_finite(logits)
            state = advance(state, logits, rules, model.eos, longest)
            steps += 1
        rounds.append(steps)
        seconds["draft"] += written - began
        seconds["score"] += scored - written
        seconds["search"] += perf_counter() - scored
    best = state.finished[:num_return_sequences]
    decode = getattr(model.tokenizer, "decode", None)
    return Beams(
        tokens=best,
        texts=tuple(
            decode(list(path), skip_special_tokens=True) if decode else "" for path in best
        ),
        scores=tuple(state.values[:num_return_sequences].tolist()),
        rounds=tuple(rounds),
        seconds=seconds,
    )
