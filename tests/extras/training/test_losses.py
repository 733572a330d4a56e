"""Each loss is its formula, worked out by hand on small distributions."""

import math
from functools import partial
from itertools import product

import pytest
import torch

from outrider import Draft, Sampling, Scores
from outrider.extras.training.losses import (
    DIVERGENCES,
    accepted_in_blocks,
    cross_entropy,
    expected_lengths,
    forward_kl,
    jensen_shannon,
    nearness,
    reverse_kl,
    top_k,
    total_variation,
)
from outrider.testing.enumerated import EnumeratedChance
from outrider.verifiers.block import Block

P = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]], dtype=torch.float64)
Q = torch.tensor([[0.25, 0.25, 0.5], [0.1, 0.8, 0.1]], dtype=torch.float64)


def test_divergences() -> None:
    kl = 0.5 * torch.tensor(2.0).log() + 0.25 * torch.tensor(0.5).log()
    assert forward_kl(Q.log(), P.log())[0] == pytest.approx(float(kl))
    assert reverse_kl(Q.log(), P.log())[0] == pytest.approx(float(kl))  # by symmetry
    assert total_variation(Q.log(), P.log()).tolist() == pytest.approx([0.25, 0])
    mean = (P + Q) / 2
    expected = ((P * (P / mean).log()).sum(-1) + (Q * (Q / mean).log()).sum(-1)) / 2
    torch.testing.assert_close(jensen_shannon(Q.log(), P.log()), expected)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_a_divergence_is_least_where_the_distributions_agree(name: str) -> None:
    logits = torch.randn(4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    own = logits.clone().requires_grad_()
    DIVERGENCES[name](own + 0 * logits, logits).sum().backward()
    torch.testing.assert_close(own.grad, torch.zeros_like(own), atol=1e-9, rtol=0)
    assert (DIVERGENCES[name](logits.flip(0), logits) > 0).all()


def test_top_k_weighs_the_likeliest() -> None:
    expected = -(0.5 * Q[0, 0].log() + 0.25 * Q[0, 1].log())
    loss = top_k(Q.log(), (P + torch.tensor([0, 1e-9, 0])).log(), k=2)
    assert loss[0] == pytest.approx(float(expected))
    whole = -(P * Q.log()).sum(-1)
    torch.testing.assert_close(top_k(Q.log(), P.log(), k=10), whole)


def test_distance_and_cross_entropy() -> None:
    assert nearness(torch.tensor([[0.5, 3.0]]), torch.zeros(1, 2)).item() == (0.125 + 2.5) / 2
    tokens = torch.tensor([2, 1])
    assert cross_entropy(Q.log(), tokens).exp().tolist() == pytest.approx([2, 1.25])


def test_a_place_weighs_its_part_in_the_expected_length() -> None:
    logs = torch.tensor([[0.9, 0.5, 0.8], [0.3, 1.0, 0.6]]).log().requires_grad_()
    logs.exp().cumprod(-1).sum().backward()
    assert logs.grad is not None
    torch.testing.assert_close(expected_lengths(logs.detach().exp()), logs.grad)


def test_the_blocks_of_texts_count_as_block_verification_accepts_them() -> None:
    """The mean over the target's texts is the rule's over drafts; its gradient has one formula."""
    torch.manual_seed(1)
    p, q = (torch.randn(4, 3, dtype=torch.float64).softmax(-1) for _ in range(2))
    p_rows, q_rows = ({(): t[0], **{(x,): t[x + 1] for x in range(3)}} for t in (p, q))
    of_texts = of_rule = 0.0
    for x, y in product(range(3), repeat=2):
        own = torch.stack([q_rows[()][x], q_rows[x,][y]])
        target = torch.stack([p_rows[()][x], p_rows[x,][y]])
        of_texts += float(target.prod() * accepted_in_blocks((own / target).log()))
        draft = Draft((x, y), (-1, 0), (q_rows[()], q_rows[x,]))
        scores = Scores(torch.stack([p_rows[()], p_rows[x,], p[0]]).log(), Sampling(1.0))
        for chance, verdict in EnumeratedChance.outcomes(partial(Block().verify, draft, scores)):
            of_rule += float(own.prod()) * chance * len(verdict.accepted)
    assert of_texts == pytest.approx(of_rule, abs=1e-12)
    logs = torch.tensor([-0.5, 0.3, -0.9, 0.2]).requires_grad_()
    accepted_in_blocks(logs).backward()
    # The least ratio is that of 1, 1, 3 and 3 tokens, and has the gradient of all of these.
    first, last = math.exp(-0.5), math.exp(-1.1)
    right = torch.tensor([2 * (first + last), 2 * last, 2 * last, 0])
    torch.testing.assert_close(logs.grad, right)
