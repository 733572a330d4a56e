"""Check: the same prompts in the lab and on a server, texts and counts side by side."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, final

from outrider.bench.measure import TIE, first_difference
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.target import Target
from outrider.decoding.decode import decode
from outrider.serving.server import Answer, Drafted
from outrider.verifiers.token import Token


class Writer(Protocol):
    """What writes a text, as `outrider.serving.server.Server` does."""

    def complete(self, ids: Sequence[int], max_new_tokens: int) -> Answer:
        """Returns the greedy text after a prompt."""


@final
@dataclass(frozen=True, slots=True)
class Odd:
    """A text that is not the one without drafts.

    prompt: its number. place: the first token that differs. gap: between the logits of both there,
    by Outrider's pass; none where one text is the other's beginning.
    """

    prompt: int
    place: int
    gap: float | None

    @property
    def tie(self) -> bool:
        """Returns whether the two tokens are as good as each other."""
        return self.gap is not None and self.gap < TIE


def ask(
    writer: Writer, prompts: Sequence[Sequence[int]], clients: int, max_new_tokens: int
) -> list[list[int]]:
    """Returns the texts after the prompts, in their order, of so many clients at once."""
    with ThreadPoolExecutor(clients) as pool:
        found = pool.map(lambda ids: writer.complete(ids, max_new_tokens), prompts)
        return [answer.tokens for answer in found]


def lab(
    target: Target,
    drafter: Drafter,
    prompts: Sequence[Sequence[int]],
    gamma: int,
    max_new_tokens: int,
) -> Drafted:
    """Returns the counts of Outrider's own greedy decoding, as vLLM counts: empty drafts are none."""
    drafts = drafted = accepted = 0
    for ids in prompts:
        rounds = decode(target, drafter, Token(), ids, gamma=gamma, max_new_tokens=max_new_tokens)
        for each in rounds:
            drafts += bool(each.draft)
            drafted += each.drafted
            accepted += each.accepted
    return Drafted(drafts, drafted, accepted)


def odd_ones(
    texts: Sequence[Sequence[int]],
    right: Sequence[Sequence[int]],
    prompts: Sequence[Sequence[int]],
    judge: Target,
) -> list[Odd]:
    """Returns where texts differ from those without drafts."""
    found = []
    for number, (text, expected) in enumerate(zip(texts, right, strict=True)):
        if list(text) == list(expected):
            continue
        place, gap = first_difference(text, expected), None
        if place < min(len(text), len(expected)):
            logits = judge.open([*prompts[number], *expected[:place]]).score(Draft())[0]
            gap = abs(float(logits[text[place]] - logits[expected[place]]))
        found.append(Odd(number, place, gap))
    return found
