"""A drafter's beams, which run ahead of the target's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.calling import calling
from outrider.base.errors import ConfigError
from outrider.contract.chance import SampledChance
from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.sampling import Sampling
from outrider.contract.sheet import Sheet
from outrider.contract.target import Target
from outrider.decoding.batches.batch_target import Path
from outrider.decoding.calls import call_drafter
from outrider.extras.beams.search import State

AVAILABLE = frozenset({"model", "tokenizer"})
"""What a drafter of beams may need. There are no features: the target has not read the beams."""


@final
@dataclass(frozen=True, slots=True)
class BeamDrafter:
    """Runs beam search with a drafter's distributions.

    width: the number of its beams (u in 2211.17192, A.4).
    eos: the ids that end a beam. Ended beams are dropped, as the target's own are.
    """

    drafter: Drafter
    prompt: Sequence[int]
    width: int
    eos: frozenset[int]
    vocab_size: int

    def run_ahead(self, state: State, depth: int) -> list[list[Path]]:
        """Returns the drafter's beams one token, two tokens, ... and `depth` tokens after `state`.

        They start from the target's running beams with their scores.
        """
        beams = dict[Path, float]()
        for path, score in zip(state.running, state.scores.tolist(), strict=True):
            beams.setdefault(path, score)
        beams_by_step: list[list[Path]] = []
        for _ in range(depth):
            beams = self._step(beams)
            if not beams:
                break
            beams_by_step.append(list(beams))
        return beams_by_step

    def _step(self, beams: dict[Path, float]) -> dict[Path, float]:
        """Returns the likeliest continuations of some beams by one token, with their scores."""
        paths, scores = list(beams), torch.tensor(list(beams.values()))
        texts = [[*self.prompt, *path] for path in paths]
        token_scores = log_probs(self.drafter, texts, self.vocab_size)
        token_scores[:, list(self.eos)] = float("-inf")
        total = (token_scores + scores[:, None]).reshape(-1)
        best = total.topk(min(self.width, len(total)))
        return {
            (*paths[index // self.vocab_size], index % self.vocab_size): score
            for index, score in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            if score > float("-inf")
        }


def fit(target: Target, drafter: Drafter) -> None:
    """Binds a drafter to the target whose beams it drafts.

    Raises:
        ConfigError: the drafter needs more than tokens or does not write chains, the target takes
            no trees, or the two don't fit.
    """
    name = type(drafter).__name__
    with calling("target", target):
        constraint = target.constraint(*target.begin([0]))
    if constraint is not None:
        raise ConfigError(
            "beams take no defaults of the model (a penalty, stop strings, ...): expected"
            " target.generation_config=ignore"
        )
    if not target.trees:
        raise ConfigError(f"beams are scored as a tree: {target.no_trees}")
    available = AVAILABLE & target.offers
    if missing := sorted(drafter.needs - available):
        listed = ", ".join(["the text", *sorted(available)])
        raise ConfigError(f"drafter {name} needs {', '.join(missing)}: for beams there is {listed}")
    if drafter.trees or drafter.asks:
        raise ConfigError(f"drafter {name} writes trees: expected one that writes chains")
    if drafter.observes:
        raise ConfigError(f"drafter {name} observes: for beams there are no logits to observe")
    with calling("drafter", drafter):
        drafter.bind(target)


def log_probs(
    drafter: Drafter, texts: Sequence[list[int]], vocab_size: int
) -> Float[Tensor, "texts vocab"]:
    """Returns the log-probabilities of the token that the drafter writes after each text.

    A row is -inf throughout where it writes nothing.

    Raises:
        DrafterError: the drafter failed.
    """
    chance = SampledChance.seeded(0)  # at temperature 0 nothing is drawn
    pens = [
        Pen(Sheet(sampling=Sampling(), chance=chance, vocab_size=vocab_size, gamma=1))
        for _ in texts
    ]
    contexts = [Context(Tokens(text, len(text))) for text in texts]
    call_drafter(drafter, list(zip(contexts, pens, strict=True)))
    return torch.stack([_first_token(pen, vocab_size) for pen in pens])


def _first_token(pen: Pen, vocab_size: int) -> Float[Tensor, "vocab"]:
    draft = pen.sheet.finish()
    if draft.logits and draft.logits[0] is not None:
        return draft.logits[0].float().cpu().log_softmax(-1)
    scores = torch.full((vocab_size,), float("-inf"))
    scores[list(draft.tokens)] = 0.0
    return scores
