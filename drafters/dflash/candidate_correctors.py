"""Correctors that choose from the likeliest tokens of each place: DFlash2's and LiLiCorr's."""

from typing import ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding, linear, normalize, scaled_dot_product_attention, silu

from outrider.drafters.dflash.corrector import (
    Backbone,
    Before,
    Block,
    Correction,
    Corrector,
    CorrectorConfig,
    Places,
)
from outrider.drafters.parts.networks.layer import RMSNorm, States


@final
class Selector(Corrector):
    """Scores each pair of a token and a candidate for the next one, as DFlash2 of z-lab does.

    Of the tokens b with the largest logits U, token b at a place after token a has the score
    U[b] + <A[a] * H(state), B[b]>. All others are excluded. The tensors are those of the
    speculators library. It learns the target's distributions over the candidates; with the target's
    tokens, a place whose token is no candidate does not teach it, where z-lab's training makes that
    token one. There is no paper.
    """

    base: ClassVar[float] = 1.0

    def __init__(self, backbone: Backbone, config: CorrectorConfig) -> None:
        super().__init__()
        known = len(backbone.vocabulary)
        self._count = min(config.candidates, known)
        self.predecessor_codebook: nn.Embedding = nn.Embedding(len(backbone.embedding), config.rank)
        self.successor_codebook: nn.Embedding = nn.Embedding(known, config.rank)
        self.hidden_projection: nn.Linear = nn.Linear(backbone.width, config.rank, bias=False)
        for layer in (self.predecessor_codebook, self.successor_codebook, self.hidden_projection):
            nn.init.normal_(layer.weight, std=0.02)

    def forward(self, block: Block) -> Correction:
        best = block.logits.topk(self._count)
        hidden = self.hidden_projection(block.states)
        successors = self.successor_codebook(best.indices)

        def correction(before: Before, first: int) -> Places:
            places = slice(first, before.shape[1])
            pair = self.predecessor_codebook(before[:, places]) * hidden[:, places]
            added = (pair[..., None, :] * successors[:, places]).sum(-1)
            scores = best.values[:, places] + added
            return only(scores, best.indices[:, places], block.logits.shape[-1])

        return correction


def only(
    scores: Float[Tensor, "*batch candidates"],
    candidates: Int[Tensor, "*some candidates"],
    size: int,
) -> Float[Tensor, "*batch size"]:
    """Returns logits over `size` tokens: the scores of the candidates, and -inf for all others."""
    excluded = scores.new_full((*scores.shape[:-1], size), -torch.inf)
    return excluded.scatter(-1, candidates.expand_as(scores), scores)


FEATURES = 5
"""Of a candidate: its log-probability, probability, distance from the best, rank, and whether it is
the best."""

VECTOR_EPS = 1e-6
"""The least length that vectors are divided by, as in published configs."""


@final
class Lattice(Corrector):
    """Draws a walk over a lattice of candidates (LiLiCorr, 2608.20530).

    The candidates of a place are the tokens with the largest logits. All of them, of all places,
    attend to each other. Each then has a vector for what may follow it and one for what it may
    follow, and the last token of the text has one of the first kind. The scaled cosine of a token's
    vector with each candidate's at the next place is the candidate's logit. All other tokens are
    excluded, and the backbone's logits count through the candidates' features alone.

    The tensors are those that vLLM, SGLang and NVIDIA read. How published networks learn is not
    known to us: these learn as `Selector` does. A place after a token that was no candidate keeps
    the backbone's logits of its candidates.
    """

    base: ClassVar[float] = 1.0

    def __init__(self, backbone: Backbone, config: CorrectorConfig) -> None:
        super().__init__()
        width, rank = backbone.width, config.rank
        ids = backbone.vocabulary.ids
        table = backbone.embedding
        known = torch.arange(len(table), device=table.device) if ids is None else ids
        self._embedding, self._known, self._scale = table, known, config.scale
        self._count = min(config.candidates, len(backbone.vocabulary))
        self._places, self._furthest = backbone.places, backbone.rows - 1
        heads = config.heads if rank % config.heads == 0 else 1
        factors = config.factors or rank
        self.token_proj: nn.Module = nn.Linear(width, rank) if width != rank else nn.Identity()
        self.pass_hidden_proj: nn.Linear = nn.Linear(width, rank)
        self.context_proj: nn.Linear = nn.Linear(width, rank)
        self.feature_mlp: nn.Sequential = nn.Sequential(
            nn.LayerNorm(FEATURES), *_mlp(FEATURES, rank, rank)
        )
        self.slot_embedding: nn.Parameter = nn.Parameter(
            torch.zeros(1, 1, backbone.places, 1, rank)
        )
        self.rank_embedding: nn.Parameter = nn.Parameter(torch.zeros(1, 1, 1, self._count, rank))
        distances = 2 * backbone.rows - 1
        self.relative_slot_bias: nn.Parameter = nn.Parameter(torch.zeros(heads, distances))
        self.same_slot_bias: nn.Parameter = nn.Parameter(torch.zeros(heads))
        layers = [_Layer(rank, heads, config.ratio, backbone.eps) for _ in range(config.layers)]
        self.layers: nn.ModuleList = nn.ModuleList(layers)
        self.output_norm: RMSNorm = RMSNorm(rank, backbone.eps)
        self.anchor_norm: RMSNorm = RMSNorm(rank, backbone.eps)
        self.factor_input_proj: nn.Linear = nn.Linear(3 * rank, rank)
        self.out_head: nn.Linear = nn.Linear(rank, factors)
        self.in_head: nn.Linear = nn.Linear(rank, factors)
        self.anchor_out_head: nn.Linear = nn.Linear(rank, factors)

    def forward(self, block: Block) -> Correction:
        best = block.logits.log_softmax(-1).topk(self._count)
        size = block.logits.shape[-1]
        candidates = self._known.to(best.indices.device)[best.indices]
        start, pairs = self._scores(block, best.values, candidates)

        def correction(before: Before, first: int) -> Places:
            scores = [start.expand(len(before), -1)] if first == 0 else []
            for place in range(max(first, 1), before.shape[1]):
                is_last = candidates[:, place - 1] == before[:, place, None]
                rows = pairs[:, place - 1].expand(len(before), -1, -1)
                row = (rows * is_last[..., None]).sum(1)
                known = is_last.any(-1, keepdim=True)
                scores.append(torch.where(known, row, best.values[:, place]))
            of_places = best.indices[:, first : before.shape[1]]
            return only(torch.stack(scores, dim=1), of_places, size)

        return correction

    def _scores(
        self,
        block: Block,
        log_probs: Float[Tensor, "blocks places candidates"],
        candidates: Int[Tensor, "blocks places candidates"],
    ) -> tuple[Float[Tensor, "blocks candidates"], Float[Tensor, "blocks pairs former latter"]]:
        """Returns the logits of the candidates at the first place, and of pairs of neighbours."""
        x = self.token_proj(embedding(candidates, self._embedding))
        x = x + self.pass_hidden_proj(block.states)[:, :, None]
        x = x + self.feature_mlp(_features(log_probs))
        x = (x + self.slot_embedding[0] + self.rank_embedding[0]).flatten(1, 2)
        place = torch.arange(self._places, device=x.device).repeat_interleave(self._count)
        apart = place[:, None] - place
        bias = self.relative_slot_bias[:, apart + self._furthest]
        bias = bias + (apart == 0) * self.same_slot_bias[:, None, None]
        for layer in self.layers:
            x = layer(x, bias.to(x.dtype))
        x = self.output_norm(x)
        text = self.anchor_norm(self.context_proj(block.text))
        beside = text[:, None].expand_as(x)
        x = silu(self.factor_input_proj(torch.cat([x, beside, x * beside], dim=-1)))
        x = x.view(*candidates.shape, -1)
        heads = (self.out_head, self.in_head)
        leads, follows = (normalize(head(x), dim=-1, eps=VECTOR_EPS) for head in heads)
        start = normalize(self.anchor_out_head(text), dim=-1, eps=VECTOR_EPS)
        pairs = leads[:, :-1] @ follows[:, 1:].transpose(-1, -2)
        return self._scale * (follows[:, 0] @ start[..., None])[..., 0], self._scale * pairs


@final
class _Attention(nn.Module):
    """Attention with the names of `torch.nn.MultiheadAttention`."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.in_proj_weight: nn.Parameter = nn.Parameter(torch.empty(3 * width, width))
        nn.init.xavier_uniform_(self.in_proj_weight)
        self.in_proj_bias: nn.Parameter = nn.Parameter(torch.zeros(3 * width))
        self.out_proj: nn.Linear = nn.Linear(width, width)

    def forward(self, x: States, bias: Float[Tensor, "heads nodes nodes"]) -> States:
        read = linear(x, self.in_proj_weight, self.in_proj_bias)
        parts = read.view(*x.shape[:2], 3, self._heads, -1)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
        out: Tensor = self.out_proj(mixed.transpose(1, 2).flatten(2))
        return out


@final
class _Layer(nn.Module):
    """Attention over all candidates, biased by how far apart their places are, and a network."""

    def __init__(self, width: int, heads: int, ratio: float, eps: float) -> None:
        super().__init__()
        self.attn_norm: RMSNorm = RMSNorm(width, eps)
        self.attn: _Attention = _Attention(width, heads)
        self.mlp_norm: RMSNorm = RMSNorm(width, eps)
        self.mlp: nn.Sequential = _mlp(width, int(ratio * width), width)

    def forward(self, x: States, bias: Float[Tensor, "heads nodes nodes"]) -> States:
        x = x + self.attn(self.attn_norm(x), bias)
        out: Tensor = x + self.mlp(self.mlp_norm(x))
        return out


def _mlp(inputs: int, inner: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, inner), nn.SiLU(), nn.Linear(inner, outputs))


def _features(
    log_probs: Float[Tensor, "blocks places candidates"],
) -> Float[Tensor, "blocks places candidates features"]:
    """Returns the features of candidates, which stand in the order of their probability."""
    rank = torch.arange(log_probs.shape[-1], device=log_probs.device).to(log_probs.dtype)
    share = (rank / max(len(rank) - 1, 1)).expand_as(log_probs)
    first = (rank == 0).to(log_probs.dtype).expand_as(log_probs)
    return torch.stack(
        [log_probs, log_probs.exp(), log_probs - log_probs[..., :1], share, first], dim=-1
    )
