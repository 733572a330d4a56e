"""The same prompts decoded by Outrider and by a server, texts and counts side by side."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import final

from outrider.contract.context import Tokens
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.target import Target
from outrider.decoding.decode import decode
from outrider.extras.serving.vllm_server import Drafted, Server
from outrider.verifiers.token import Token

TIE = 1e-3
"""The gap of logits below which two tokens are equally likely, up to rounding."""


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
    server: Server,
    prompts: Sequence[Sequence[int]],
    clients: int,
    max_new_tokens: int,
    temperatures: Sequence[float] = (0.0,),
) -> list[list[int]]:
    """Returns the texts after the prompts, in order; up to `clients` requests are sent at once.

    temperatures: each prompt is asked for at each of them, side by side; the last one's texts are
        returned. In one batch with sampled texts, greedy ones must stay as they are.
    """
    requests = [(ids, max_new_tokens, heat) for ids in prompts for heat in temperatures]
    with ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(lambda request: server.complete(*request), requests))
    return answers[len(temperatures) - 1 :: len(temperatures)]


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
        position, gap = Tokens([*text]).shared(Tokens([*reference])), None
        if position < min(len(text), len(reference)):
            logits = judge.open([*prompts[number], *reference[:position]]).score(Draft())[0]
            gap = abs(float(logits[text[position]] - logits[reference[position]]))
        differing.append(Difference(number, position, gap))
    return differing
