"""What is set side by side: texts in their order, counts as vLLM counts, and where texts part."""

import threading
from collections.abc import Sequence

import pytest
import torch

from outrider import Context, Drafter, Pen
from outrider.serving.check import Odd, ask, lab, odd_ones
from outrider.serving.server import Answer, Drafted
from outrider.targets.tabular import TabularTarget


class Echoing:
    """Answers with the prompt, when as many have asked as are to ask at once."""

    def __init__(self, clients: int) -> None:
        self.barrier = threading.Barrier(clients, timeout=60)

    def complete(self, ids: Sequence[int], max_new_tokens: int) -> Answer:
        self.barrier.wait()
        return Answer(list(ids)[:max_new_tokens], 0.0)


def test_so_many_ask_at_once_and_answers_keep_their_order() -> None:
    prompts = [[number, 7] for number in range(6)]
    assert ask(Echoing(3), prompts, 3, 1) == [[number] for number in range(6)]


@pytest.fixture
def cycle() -> TabularTarget:
    """A target that counts 0 1 2 3 0 1 2 3; after 3, token 0 is a hair better than token 1."""
    probs = torch.full((4, 4), 1e-6).double()
    for token in range(4):
        probs[token, (token + 1) % 4] = 1.0
    probs[3, 1] = 0.9999
    return TabularTarget.of(probs / probs.sum(-1, keepdim=True), 1)


class Sometimes(Drafter):
    """Drafts two tokens where the text has an even length: the right one, and token 0."""

    def propose(self, context: Context, pen: Pen) -> None:
        if len(context.tokens) % 2 == 0 and pen.open:
            pen.write((context.tokens[-1] + 1) % 4)
            if pen.open:
                pen.write(0)


def test_drafts_that_are_empty_do_not_count(cycle: TabularTarget) -> None:
    # [0 1] drafts 2 0: 2 is right, the target says 3. [0 1 2 3] drafts 0 0: 0 is right, then 1.
    # There is room for one more after that, and so for no draft.
    assert lab(cycle, Sometimes(), [[0, 1]], 2, 5) == Drafted(2, 4, 2)
    assert lab(cycle, Sometimes(), [[0, 1], [0, 1]], 2, 5) == Drafted(4, 8, 4)
    # Of an odd length at first, so the first draft is none.
    assert lab(cycle, Sometimes(), [[1]], 2, 1) == Drafted()


def test_where_texts_part(cycle: TabularTarget) -> None:
    right = [[1, 2, 3, 0], [1, 2, 3, 0], [1, 2], [1, 2, 3, 0]]
    texts = [[1, 2, 3, 0], [1, 2, 3, 1], [1, 2, 3], [1, 3, 3, 0]]
    tie, longer, far = odd_ones(texts, right, [[0]] * 4, cycle)
    assert (tie.prompt, tie.place, tie.tie) == (1, 3, True)
    assert longer == Odd(2, 2, None) and not longer.tie
    assert (far.prompt, far.place, far.tie) == (3, 1, False)
    assert far.gap == pytest.approx(torch.tensor(1e6).log().item(), rel=1e-6)
