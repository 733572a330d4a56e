"""Correctors: each has the published formula, written out for one block."""

from typing import Any

import torch
from torch.nn.functional import silu

from outrider.drafters.dflash.candidate_correctors import SCALE
from outrider.drafters.dflash.corrector import Backbone, Block, CorrectorConfig
from outrider.drafters.parts.networks.vocabulary import Vocabulary

WIDTH, PLACES, RANK = 4, 3, 2
IDS = torch.tensor([1, 3, 4])
EMBEDDING = torch.randn(7, WIDTH, generator=torch.Generator().manual_seed(6))
EARLIER, BEFORE = 2, [6, 1, 3]


def made(kind: str, candidates: int = 16, first: int = 0) -> tuple[Block, Any, Any]:
    """Returns a block, its correction, and the corrector's weights by name."""
    torch.manual_seed(5)
    backbone = Backbone(WIDTH, PLACES, PLACES + 1, Vocabulary(7, IDS), EMBEDDING)
    corrector = CorrectorConfig(kind, RANK, candidates, first=first).make(backbone)
    for weight in corrector.parameters():
        torch.nn.init.normal_(weight)
    states, text = torch.randn(1, PLACES, WIDTH), torch.randn(1, WIDTH)
    start, earlier = torch.randn(1, 1, WIDTH), torch.tensor([[EARLIER]])
    block = Block(states, torch.randn(1, PLACES, len(IDS)), text, start, earlier)
    logits = corrector(block)(torch.tensor([BEFORE]), 0)[0].detach()
    return block, logits, {name: weight.detach() for name, weight in corrector.named_parameters()}


def test_markov_adds_the_row_of_the_token_before() -> None:
    block, logits, w = made("markov")
    bias = w["markov_w1.weight"] @ w["markov_w2.weight"].T
    torch.testing.assert_close(logits - block.logits[0], bias[BEFORE])


def test_the_recurrent_head_gates_its_memory() -> None:
    block, logits, w = made("rnn")
    memory = torch.zeros(RANK)
    for place, token in enumerate(BEFORE):
        read = torch.cat([memory, w["markov_w1.weight"][token], block.states[0, place]])
        made_of = w["joint_proj.weight"] @ read + w["joint_proj.bias"]
        gate, candidate, output = made_of[:2].sigmoid(), made_of[2:4].tanh(), made_of[4:].tanh()
        memory = gate * memory + (1 - gate) * candidate
        bias = w["markov_w2.weight"] @ output
        torch.testing.assert_close(logits[place], block.logits[0, place] + bias)


def test_domino_is_a_gru_over_embeddings_that_corrects_from_a_place_on() -> None:
    block, logits, w = made("domino", first=1)
    memory = torch.zeros(RANK)
    for place, token in enumerate(BEFORE):
        word = (w["prefix_gru.weight_ih_l0"] @ EMBEDDING[token]).view(3, RANK)
        past = (w["prefix_gru.weight_hh_l0"] @ memory).view(3, RANK)
        reset, update = (word[0] + past[0]).sigmoid(), (word[1] + past[1]).sigmoid()
        memory = (1 - update) * (word[2] + reset * past[2]).tanh() + update * memory
        inner = w["embed_proj.0.weight"] @ torch.cat([block.states[0, place], memory])
        bias = w["embed_proj.2.weight"] @ silu(inner) * (place > 0)
        torch.testing.assert_close(logits[place], block.logits[0, place] + bias)


def test_the_selector_scores_pairs_of_a_token_and_a_candidate() -> None:
    block, logits, w = made("selector", candidates=2)
    for place, token in enumerate(BEFORE):
        state = w["hidden_projection.weight"] @ block.states[0, place]
        pair = w["predecessor_codebook.weight"][token] * state
        scores = block.logits[0, place] + w["successor_codebook.weight"] @ pair
        scores[block.logits[0, place].argmin()] = -torch.inf
        torch.testing.assert_close(logits[place], scores)


def test_the_mixer_adds_the_rows_before() -> None:
    block, logits, w = made("xpress")
    states = torch.cat([block.start, block.states], dim=1)[0]
    rows = [
        w["in_proj.weight"]
        @ torch.cat(
            [
                w["down_h.weight"] @ states[place],
                w["down_g.weight"] @ states.mean(0),
                w["token_embed.weight"][token],
            ]
        )
        for place, token in enumerate([EARLIER, *BEFORE])
    ]
    for place in range(PLACES):
        x = rows[place + 1].clone()
        for earlier in range(place + 2):
            x += w["mix_l"][:, place + 1, earlier] * rows[earlier]
        x = x + w["mlp_down.weight"] @ (silu(w["mlp_gate.weight"] @ x) * (w["mlp_up.weight"] @ x))
        torch.testing.assert_close(
            logits[place], block.logits[0, place] + w["readout.weight"] @ x, rtol=1e-4, atol=1e-5
        )


def test_the_lattice_has_cosines_of_neighbours() -> None:
    block, logits, _ = made("lilicorr", candidates=2)
    excluded = logits.isneginf()
    assert excluded.sum(-1).tolist() == [1, 1, 1]
    assert torch.equal(excluded.float().argmax(-1), block.logits[0].argmin(-1))
    assert (logits[~excluded].abs() <= SCALE + 1e-3).all()
    # The token before the last place is its candidate or not; if not, the backbone's logits stay.
    for place, token in enumerate(BEFORE[1:], start=1):
        is_candidate = token in IDS[block.logits[0, place - 1].topk(2).indices].tolist()
        own = block.logits[0, place].log_softmax(-1)
        same = torch.allclose(logits[place][~excluded[place]], own[~excluded[place]])
        assert same != is_candidate
