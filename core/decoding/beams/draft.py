"""A drafter's own beams, from those of the target on."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import SampledChance
from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.decoding.beams.search import Path, State
from outrider.decoding.rounds import call_drafter
from outrider.errors import ConfigError

GIVEN = frozenset({"model", "tokenizer"})
"""What a drafter may need here: of a text that is only a guess the target says nothing."""


def fit(target: Target, drafter: Drafter) -> None:
    """Fits a drafter to a target whose beams it is to draft.

    Raises:
        ConfigError: it needs more than tokens, or writes more than a chain, or the target takes
            no trees, or the two don't go together.
    """
    name = type(drafter).__name__
    if not target.trees:
        raise ConfigError("beams are scored as a tree: the target takes only chains")
    given = GIVEN & target.offers
    if missing := sorted(drafter.needs - given):
        there = ", ".join(["the text", *sorted(given)])
        raise ConfigError(f"drafter {name} needs {', '.join(missing)}: for beams there is {there}")
    if drafter.trees or drafter.asks:
        raise ConfigError(f"drafter {name} writes trees: expected one that writes chains")
    drafter.bind(target)


def layers(
    drafter: Drafter,
    prompt: Sequence[int],
    state: State,
    width: int,
    depth: int,
    eos: frozenset[int],
    vocab_size: int,
) -> list[list[Path]]:
    """Returns the drafter's beams one token on from the running ones, two tokens on, and so forth.

    They start with the target's scores, and hold no ended beam, as the running ones do not.

    width: of the drafter's beams (u in 2211.17192, A.4).
    """
    beams = dict[Path, float]()
    for path, score in zip(state.running, state.scores.tolist(), strict=True):
        beams.setdefault(path, score)
    found: list[list[Path]] = []
    for _ in range(depth):
        paths, scores = list(beams), torch.tensor(list(beams.values()))
        told = log_probs(drafter, [[*prompt, *path] for path in paths], vocab_size)
        told[:, list(eos)] = float("-inf")
        total = (told + scores[:, None]).reshape(-1)
        best = total.topk(min(width, len(total)))
        beams = {
            (*paths[place // vocab_size], place % vocab_size): score
            for place, score in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            if score > float("-inf")
        }
        if not beams:
            break
        found.append(list(beams))
    return found


def log_probs(
    drafter: Drafter, texts: Sequence[list[int]], vocab_size: int
) -> Float[Tensor, "texts vocab"]:
    """Returns the distribution of what the drafter writes after each text; nothing at all has no mass.

    Raises:
        DrafterError: the drafter failed.
    """
    chance = SampledChance.seeded(0)  # at temperature 0 nothing is drawn
    pens = [Pen(sampling=Sampling(), chance=chance, vocab_size=vocab_size, gamma=1) for _ in texts]
    contexts = [Context(Tokens(text, len(text))) for text in texts]
    call_drafter(drafter, list(zip(contexts, pens, strict=True)))
    return torch.stack([_distribution(pen, vocab_size) for pen in pens])


def _distribution(pen: Pen, vocab_size: int) -> Float[Tensor, "vocab"]:
    draft = pen.finish()
    if draft.logits and draft.logits[0] is not None:
        return draft.logits[0].float().cpu().log_softmax(-1)
    probs = torch.full((vocab_size,), float("-inf"))
    probs[list(draft.tokens)] = 0.0
    return probs
