"""Texts come in the order of their prompts, counts follow vLLM's rules, differences are located."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from outrider import Context, Drafter, Pen
from outrider.extras.serving.served_texts import Difference, ask, differences, lab_counts
from outrider.extras.serving.vllm_server import Drafted
from outrider.targets.tabular import TabularTarget


class Echoing:
    """Answers with the prompt, but only once all clients are waiting; hot texts are another."""

    def __init__(self, clients: int) -> None:
        self.barrier = threading.Barrier(clients, timeout=3600)

    def complete(self, ids: Sequence[int], count: int, temperature: float) -> list[int]:
        self.barrier.wait()
        return [0, 0] if temperature else [*ids]


@pytest.mark.parametrize("temperatures", [(0.0,), (1.0, 0.0)])
def test_clients_ask_at_once_and_answers_keep_their_order(temperatures: tuple[float, ...]) -> None:
    prompts = [[number, 7] for number in range(6)]
    server: Any = Echoing(3)
    assert ask(server, prompts, 3, 1, temperatures) == prompts


@pytest.fixture
def cycle() -> TabularTarget:
    """A target that counts 0 1 2 3 0 1 2 3; after 3, token 0 is slightly likelier than token 1."""
    probs = torch.full((4, 4), 1e-6).double()
    for token in range(4):
        probs[token, (token + 1) % 4] = 1.0
    probs[3, 1] = 0.9999
    return TabularTarget.of(probs / probs.sum(-1, keepdim=True), 1)


class Sometimes(Drafter):
    """Drafts two tokens if the length of the text is even: the right one, then token 0."""

    def propose(self, context: Context, pen: Pen) -> None:
        if len(context.tokens) % 2 == 0 and pen.open:
            pen.write((context.tokens[-1] + 1) % 4)
            if pen.open:
                pen.write(0)


def test_empty_drafts_do_not_count(cycle: TabularTarget) -> None:
    def counts(prompts: list[list[int]], max_new_tokens: int) -> Drafted:
        options = {"gamma": 2, "max_new_tokens": max_new_tokens}
        return lab_counts(cycle, Sometimes(), prompts, **options)

    # [0 1] drafts 2 0: 2 is right, the target says 3. [0 1 2 3] drafts 0 0: 0 is right, then 1.
    # That leaves room for one token, and so for no draft.
    assert counts([[0, 1]], 5) == Drafted(2, 4, 2)
    assert counts([[0, 1], [0, 1]], 5) == Drafted(4, 8, 4)
    # The length is odd at first, so the first draft is empty.
    assert counts([[1]], 1) == Drafted()


def test_where_texts_differ(cycle: TabularTarget) -> None:
    right = [[1, 2, 3, 0], [1, 2, 3, 0], [1, 2], [1, 2, 3, 0]]
    texts = [[1, 2, 3, 0], [1, 2, 3, 1], [1, 2, 3], [1, 3, 3, 0]]
    tie, longer, far = differences(texts, right, [[0]] * 4, cycle)
    assert (tie.prompt, tie.position, tie.tie) == (1, 3, True)
    assert longer == Difference(2, 2, None) and not longer.tie
    assert (far.prompt, far.position, far.tie) == (3, 1, False)
    assert far.gap == pytest.approx(torch.tensor(1e6).log().item(), rel=1e-6)
