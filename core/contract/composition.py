"""Drafters made of drafters: pens that continue, guess or stand apart, and probes to the target.

Only a drafter that combines others, or that has the target score tokens of its own, imports this.
"""

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import DrafterError
from outrider.contract.chance import Chance
from outrider.contract.draft import ROOT, Draft
from outrider.contract.pen import Pen
from outrider.contract.sheet import Guesses, checked_token


def continued(pen: Pen) -> Pen:
    """Returns a pen that goes on after the last node of another, for a second drafter.

    It writes into the same draft. To it, the context ends with that node: its nodes are numbered
    from 0, and gamma and budget are what is left of them. A `limit` set on the first pen does not
    apply to it.

    Raises `DrafterError` if the next token has a guess that was not redrawn.
    """
    pen.sheet.settle()
    return Pen(pen.sheet, pen.sheet.last)


def apart(pen: Pen, gamma: int, budget: int | None = None) -> Pen:
    """Returns a pen for a separate draft after the last node, with the same sampling and chance.

    gamma, budget: the bounds of that draft; `budget` defaults to gamma.
    """
    sheet, last = pen.sheet, pen.sheet.last
    noise, guide = sheet.noise, sheet.guide_after(last)
    noise = noise and replace(noise, text=[*noise.text, *sheet.path(last)])
    return Pen(replace(sheet, gamma=gamma, budget=budget, more=None, noise=noise, guide=guide))


def written(pen: Pen) -> Draft:
    """Returns what a pen from `apart` or `faster` has written.

    Raises `DrafterError` if the next token has a guess that was not redrawn.
    """
    return pen.sheet.finish()


def faster(pen: Pen, gamma: int) -> Pen:
    """Returns a pen for a faster drafter, whose tokens are guesses of those that `pen` writes next.

    Each has to be redrawn, up to the first that is replaced: skipping one would bias the draft.

    gamma: the most tokens to guess.

    Raises `DrafterError` if a guess of an earlier such pen is left.
    """
    pen.sheet.settle()
    guesses = apart(pen, gamma)
    pen.sheet.guesses = Guesses(guesses.sheet, len(pen.sheet.tokens), lambda: pen.open)
    return guesses


def redraw(pen: Pen, logits: Float[Tensor, "vocab"]) -> int:
    """Draws a token from the distribution of `logits`; keeps its guess as often as possible.

    The guess x of the pen from `faster` is kept with probability min(1, p(x) / q(x)) and otherwise
    replaced by a draw from norm(max(0, p - q)), so the token has distribution p whatever the guess
    was (2211.17192, Algorithm 1). p is what is recorded. It may depend on the guesses before x, but
    not on x.

    Raises `DrafterError` if there is no guess for the token, or as `Pen.draw` does.
    """
    sheet, guesses = pen.sheet, pen.sheet.guesses
    index = None if guesses is None else guesses.index(sheet)
    if guesses is None or index is None:
        raise DrafterError(f"redrew token {len(pen) + 1}: there is no guess for it")
    draft, sheet.guesses = guesses.sheet.finish(), None
    guess = draft.tokens[index]
    if sheet.sampling.greedy or sheet.noise is not None:
        token = pen.draw(logits)  # shared noise has made the guess likely already
    else:
        logits = sheet.checked(logits, sheet.last).clone()
        probs = sheet.sampling.exact(logits)
        token = kept_or_redrawn(guess, draft.distribution(index, probs), probs, sheet.chance)
        pen.submit_drawn([(token, probs)], logits=logits)
    if token == guess:
        sheet.guesses = guesses  # those that continue this one are still good
    return token


def kept_or_redrawn(
    guess: int, q: Float[Tensor, "vocab"], probs: Float[Tensor, "vocab"], chance: Chance
) -> int:
    """Returns a token with distribution `probs`: a guess from q, as often as possible, or another.

    Leviathan et al. 2211.17192, Algorithm 1.
    """
    if chance.coins((probs[guess] / q[guess])[None])[0]:
        return guess
    rest = (probs - q).clamp(min=0)
    return chance.categorical(rest if rest.any() else probs)


def ask(pen: Pen, token: int, after: int | None = None, *, node: int | None = None) -> int:
    """Has the target score `token` in the same pass, outside the draft; returns its probe.

    The logits after it are handed to the drafter's `answer`. Probes form a tree of their own,
    numbered from 0.

    after: the probe that this one continues, -1 for the context. Defaults to the last one.
    node: the node of the draft that it continues, in place of a probe.

    Raises `DrafterError` if `token` is not in the vocabulary, or there is no probe `after` or no
    `node`.
    """
    asked = pen.sheet.asked
    parent = len(asked) - 1 if after is None else after
    if not ROOT <= parent < len(asked):
        raise DrafterError(f"asked after probe {parent}: there are {len(asked)}")
    if node is not None or parent == ROOT:
        parent = -2 - pen.sheet_node(ROOT if node is None else node)
    asked.append((checked_token(token, pen.vocab_size), parent))
    return len(asked) - 1
