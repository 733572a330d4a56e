"""Reference: a text that the target wrote, and drafts that are made to follow it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.calling import calling
from outrider.contract.chance import Chance, SampledChance
from outrider.contract.constraint import constrained
from outrider.contract.context import Context, Tokens
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.policy import Policy
from outrider.contract.sampling import Sampling
from outrider.contract.sheet import Sheet
from outrider.contract.target import Target
from outrider.decoding.calls import call_drafter, ends, goes_on


@final
@dataclass(frozen=True, slots=True)
class Reference:
    """A text that the target wrote, with the target's logits at each prefix of it.

    ids: the tokens before the text, then the text.
    start: how many tokens come before the text: the prompt's, or a decoder's start token.
    source: an encoder's input, or None.
    features: the target's features for drafters that need them, by name.
    first_features: those that a session has before it has scored anything.
    ended: whether the text ends with an end token, rather than at the length limit.
    """

    ids: list[int]
    start: int
    source: Tokens | None
    logits: Float[Tensor, "text vocab"]
    features: dict[str, Tensor]
    first_features: dict[str, Tensor]
    ended: bool

    def before(self, row: int) -> Context:
        """Returns the context before token `row` of the text."""
        length = self.start + row
        # As in decoding, without the state of the newest token: the target has not read it yet.
        features = {name: states[: length - 1] for name, states in self.features.items()}
        features = features if row else self.first_features
        return Context(Tokens(self.ids, length), self.source, features, self.start)

    def one_behind(self, rows: int) -> "Reference":
        """Returns the first rows of the text, each with the features of the token before."""
        late, first = (
            {name: torch.cat([states[:1], states[:-1]]) for name, states in features.items()}
            for features in (self.features, self.first_features)
        )
        return replace(self, logits=self.logits[:rows], features=late, first_features=first)


def reference(
    target: Target, prompt: Sequence[int], text: Sequence[int], needs: frozenset[str] = frozenset()
) -> Reference:
    """Returns the target's logits along its own `text`, from one pass.

    needs: the features that drafters need; see `outrider.Drafter.needs`.
    """
    chain = Draft.chain(text)
    with calling("target", target):
        session = target.open(prompt, needs)
        first_features = dict(session.features())
        logits = session.score(chain)
        before, source = target.begin(prompt)
        ended, own = text[-1] in target.eos, target.constraint(before, source)
    if own:
        logits = constrained(own, before, chain, logits)
        asked = [ends(own, [*before, *text[:count]]) for count in range(1, len(text) + 1)]
        ended = ended or asked[-1]
    return Reference(
        ids=[*before, *text],
        start=len(before),
        source=source,
        logits=logits[: len(text)],
        features=session.features(),
        first_features=first_features,
        ended=ended,
    )


@final
@dataclass(frozen=True)
class Drafting:
    """How drafts are written: the run's sampling and policy, and the most tokens of a draft.

    timeout: the most seconds for a draft; None for no limit.
    note: called with the row of each draft and the draft.
    """

    sampling: Sampling
    policy: Policy
    depths: int
    timeout: float | None
    note: Callable[[int, Draft], None] | None = None


def drafts_along(
    text: Reference, drafter: Drafter, drafting: Drafting, rows: range
) -> list[tuple[Draft, int]]:
    """Returns the drafts that start at some positions and follow the text as far as they can.

    Each comes with the number of its tokens that the policy allows.
    """
    pairs, answers = [], []
    for row in rows:
        length = text.start + row
        following = text.ids[length : length + drafting.depths]
        chance = SampledChance.seeded((drafting.sampling.seed or 0) + row)
        forced, own = ForcedChance(following, chance), list[bool]()
        pen = Pen(
            Sheet(
                sampling=drafting.sampling,
                chance=forced,
                vocab_size=text.logits.shape[-1],
                gamma=len(following),
                more=partial(_kept_on, forced, drafting.policy, own),
            )
        )
        pairs.append((text.before(row), pen))
        answers.append(own)
    # All drafts together may take as long as their limits add up to.
    seconds = None if drafting.timeout is None else drafting.timeout * len(pairs)
    call_drafter(drafter, pairs, seconds)
    lengths = [more.index(False) + 1 if False in more else drafting.depths for more in answers]
    return [(pen.sheet.finish(), length) for (_, pen), length in zip(pairs, lengths, strict=True)]


@final
class ForcedChance(Chance):
    """Draws the next token of a given text wherever that token has any probability.

    text: the tokens that follow. other: what draws elsewhere.
    """

    def __init__(self, text: Sequence[int], other: Chance) -> None:
        self._text = text
        self._other = other
        self._position = 0

    @property
    def free(self) -> Chance:
        return self._other

    def more(self, draft: Draft) -> bool:
        """Notes the length of a draft, and returns whether its last token is the text's."""
        self._position = len(draft)
        return draft.tokens[-1] == self._text[self._position - 1]

    def coins(self, probs: Float[Tensor, "n"]) -> list[bool]:
        return self._other.coins(probs)

    def categorical(self, probs: Float[Tensor, "vocab"]) -> int:
        token = self._text[self._position]
        return token if probs[token] > 0 else self._other.categorical(probs)


def _kept_on(text: ForcedChance, policy: Policy, answers: list[bool], draft: Draft) -> bool:
    """Returns whether a draft's last token is the text's, and notes what the policy answers."""
    answers.append(goes_on(policy, draft))
    return text.more(draft)
