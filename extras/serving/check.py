"""The same prompts decoded by Outrider and by a server, texts and counts side by side."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, final

from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.target import Target
from outrider.decoding.decode import decode
from outrider.extras.bench.measure import TIE, first_difference
from outrider.extras.serving.server import Answer, Drafted
from outrider.verifiers.token import Token


class Writer(Protocol):
    """Anything that completes a prompt, as `outrider.extras.serving.server.Server` does."""

    def complete(self, ids: Sequence[int], max_new_tokens: int, temperature: float = 0.0) -> Answer:
        """Returns the text after a prompt, greedy by default."""


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """Where a text departs from the one that is written without drafts.

    prompt: the number of its prompt. position: the index of the first token that differs.
    gap: between the logits of the two tokens at that position, as Outrider's target scores them;
        None if one text is the beginning of the other.
    """

    prompt: int
    position: int
    gap: float | None

    @property
    def tie(self) -> bool:
        """Returns whether the two tokens score the same, up to rounding."""
        return self.gap is not None and self.gap < TIE


def ask(
    writer: Writer, prompts: Sequence[Sequence[int]], clients: int, max_new_tokens: int
) -> list[list[int]]:
    """Returns the texts after the prompts, in order; up to `clients` prompts are asked at once."""
    with ThreadPoolExecutor(clients) as pool:
        answers = pool.map(lambda ids: writer.complete(ids, max_new_tokens), prompts)
        return [answer.tokens for answer in answers]


def ask_mixed(
    writer: Writer, prompts: Sequence[Sequence[int]], clients: int, max_new_tokens: int
) -> list[list[int]]:
    """Returns the greedy texts after the prompts while every other client samples one of its own.

    In one batch with them, sampled texts must leave greedy ones as they are.
    """
    jobs = [(ids, temperature) for ids in prompts for temperature in (1.0, 0.0)]
    with ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(lambda job: writer.complete(job[0], max_new_tokens, job[1]), jobs))
    return [answer.tokens for answer in answers[1::2]]


def lab_counts(
    target: Target,
    drafter: Drafter,
    prompts: Sequence[Sequence[int]],
    *,
    gamma: int,
    max_new_tokens: int,
) -> Drafted:
    """Returns the counts of Outrider's own greedy decoding; like vLLM, it counts no empty draft."""
    drafts = drafted = accepted = 0
    for ids in prompts:
        rounds = decode(target, drafter, Token(), ids, gamma=gamma, max_new_tokens=max_new_tokens)
        for round in rounds:
            drafts += bool(round.draft)
            drafted += round.drafted
            accepted += round.accepted
    return Drafted(drafts, drafted, accepted)


def differences(
    texts: Sequence[Sequence[int]],
    expected: Sequence[Sequence[int]],
    prompts: Sequence[Sequence[int]],
    judge: Target,
) -> list[Difference]:
    """Returns where texts differ from the expected ones, at most one `Difference` for a text.

    judge: scores the two tokens at that position.
    """
    differing = []
    for number, (text, reference) in enumerate(zip(texts, expected, strict=True)):
        if list(text) == list(reference):
            continue
        position, gap = first_difference(text, reference), None
        if position < min(len(text), len(reference)):
            logits = judge.open([*prompts[number], *reference[:position]]).score(Draft())[0]
            gap = abs(float(logits[text[position]] - logits[reference[position]]))
        differing.append(Difference(number, position, gap))
    return differing
