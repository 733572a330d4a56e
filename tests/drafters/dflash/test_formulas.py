"""Correctors and local convolutions: each has the published formula, written out for a block."""

from typing import Any

import torch
from torch.nn.functional import normalize, silu

from outrider.drafters.dflash.corrector import Backbone, Block, CorrectorConfig
from outrider.drafters.dflash.network import GROUP, LocalConvolution
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


def test_a_gate_is_made_of_the_row_and_the_state() -> None:
    block, logits, w = made("gated")
    for place, token in enumerate(BEFORE):
        row = w["markov_w1.weight"][token]
        gate = w["gate_proj.weight"] @ torch.cat([block.states[0, place], row])
        bias = w["markov_w2.weight"] @ ((gate + w["gate_proj.bias"]).sigmoid() * row)
        torch.testing.assert_close(logits[place], block.logits[0, place] + bias)


def test_the_lattice_has_cosines_of_neighbours() -> None:
    """Two candidates at each of three places, of one width with one head, as vLLM scores them."""
    block, logits, w = made("lilicorr", candidates=2)

    def part(name: str, x: torch.Tensor) -> torch.Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def normed(name: str, x: torch.Tensor) -> torch.Tensor:
        return w[f"{name}.weight"] * x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()

    best = block.logits[0].log_softmax(-1).topk(2)
    nodes = [(place, rank) for place in range(PLACES) for rank in range(2)]
    rows = []
    for place, rank in nodes:
        score = best.values[place, rank]
        gap = score - best.values[place, 0]
        read = torch.stack([score, score.exp(), gap, torch.tensor(rank), torch.tensor(1 - rank)])
        read = (read - read.mean()) / (read.var(unbiased=False) + 1e-5).sqrt()
        read = read * w["feature_mlp.0.weight"] + w["feature_mlp.0.bias"]
        row = part("token_proj", EMBEDDING[IDS[best.indices[place, rank]]])
        row = row + part("pass_hidden_proj", block.states[0, place])
        row = row + part("feature_mlp.3", silu(part("feature_mlp.1", read)))
        rows.append(row + w["slot_embedding"][0, 0, place, 0] + w["rank_embedding"][0, 0, 0, rank])
    x, bias = torch.stack(rows), w["relative_slot_bias"][0]
    added = [[bias[a - b + PLACES] + (a == b) * w["same_slot_bias"][0] for b, _ in nodes]
             for a, _ in nodes]  # fmt: skip
    for layer in ("layers.0.", "layers.1."):
        inner = normed(f"{layer}attn_norm", x) @ w[f"{layer}attn.in_proj_weight"].T
        query, key, value = (inner + w[f"{layer}attn.in_proj_bias"]).chunk(3, dim=-1)
        mixed = (query @ key.T / RANK**0.5 + torch.tensor(added)).softmax(-1) @ value
        x = x + part(f"{layer}attn.out_proj", mixed)
        x = x + part(f"{layer}mlp.2", silu(part(f"{layer}mlp.0", normed(f"{layer}mlp_norm", x))))
    x, text = normed("output_norm", x), normed("anchor_norm", part("context_proj", block.text[0]))
    x = silu(part("factor_input_proj", torch.cat([x, text.expand_as(x), x * text], dim=-1)))
    leads, follows = (normalize(part(name, x), dim=-1) for name in ("out_head", "in_head"))
    start = normalize(part("anchor_out_head", text), dim=-1)
    for place, token in enumerate(BEFORE):
        exact = 20 * follows[2 * place : 2 * place + 2] @ start
        if place > 0:
            former = IDS[best.indices[place - 1]].tolist()
            exact = best.values[place]  # where the token before is no candidate
            if token in former:
                lead = leads[2 * (place - 1) + former.index(token)]
                exact = 20 * follows[2 * place : 2 * place + 2] @ lead
        right = torch.full((len(IDS),), -torch.inf).index_copy(0, best.indices[place], exact)
        torch.testing.assert_close(logits[place], right, rtol=1e-4, atol=1e-4)


def test_a_new_convolution_changes_nothing() -> None:
    x = torch.randn(2, 2 * PLACES, 2 * GROUP)
    assert torch.equal(LocalConvolution(2 * GROUP, PLACES)(x, torch.sin), x.sin())


def test_each_channel_has_a_coefficient_and_each_group_an_addition() -> None:
    convolution = LocalConvolution(2 * GROUP, PLACES)
    for weight in convolution.parameters():
        torch.nn.init.normal_(weight)
    base = convolution.base_kernel
    x = torch.randn(1, 2 * PLACES, 2 * GROUP)
    added = convolution.kernel_projection(x[0]).view(2 * PLACES, 2, 2, 2)

    def convolved(rows: torch.Tensor, side: int) -> torch.Tensor:
        out = torch.zeros_like(rows)
        for token in range(2 * PLACES):
            for channel in range(2 * GROUP):
                own, before = base[side, :, channel] + added[token, side, :, channel // GROUP]
                out[token, channel] = own * rows[token, channel]
                if token % PLACES:
                    out[token, channel] += before * rows[token - 1, channel]
        return out

    with torch.no_grad():
        right = convolved(convolved(x[0], 0).sin(), 1)
        torch.testing.assert_close(convolution(x, torch.sin)[0], right)
