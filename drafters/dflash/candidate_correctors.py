"""Correctors that choose from the likeliest tokens of each place: DFlash2's and LiLiCorr's."""

from typing import ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding, normalize, scaled_dot_product_attention, silu

from outrider.drafters.dflash.corrector import (
    Backbone,
    Before,
    Block,
    Correction,
    Corrector,
    CorrectorConfig,
    Places,
)
from outrider.drafters.parts.networks.layer import RMSNorm


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


LAYERS, HEADS, EPS = 2, 4, 1e-6
FEATURES = 5
"""Of a candidate: its log-probability, probability, distance from the best, rank, and whether it is
the best."""

SCALE = 20.0
"""What cosines are multiplied by to be logits; published networks have it in their config."""


@final
class Lattice(Corrector):
    """Draws a walk over a lattice of candidates (LiLiCorr, 2608.20530).

    The candidates of a place are the tokens with the largest logits. All of them, of all places,
    attend to each other. Each then has a vector for what may follow it and one for what it may
    follow, and the last token of the text has one of the first kind. The cosine of a token's vector
    with each candidate's at the next place, times SCALE, is the candidate's logit. All other tokens
    are excluded, and the backbone's logits count through the candidates' features alone.

    What stands in the configs of published networks is fixed here: 2 layers of 4 heads, and one
    width for all; each layer has biases of its own, the published ones share them. How those learn
    is not known to us: these learn as `Selector` does. A place after a token that was no candidate
    keeps the backbone's logits of its candidates.
    """

    base: ClassVar[float] = 1.0

    def __init__(self, backbone: Backbone, config: CorrectorConfig) -> None:
        super().__init__()
        width, rank = backbone.width, config.rank
        ids = backbone.vocabulary.ids
        table = backbone.embedding
        known = torch.arange(len(table), device=table.device) if ids is None else ids
        self._embedding, self._known = table, known
        self._count = min(config.candidates, len(backbone.vocabulary))
        self.token_proj: nn.Linear = nn.Linear(width, rank)
        self.pass_hidden_proj: nn.Linear = nn.Linear(width, rank)
        self.context_proj: nn.Linear = nn.Linear(width, rank)
        self.feature_norm: nn.LayerNorm = nn.LayerNorm(FEATURES)
        self.feature_mlp: nn.Sequential = _mlp(FEATURES, rank, rank)
        self.slot_embedding: nn.Parameter = nn.Parameter(torch.zeros(backbone.places, 1, rank))
        self.rank_embedding: nn.Parameter = nn.Parameter(torch.zeros(self._count, rank))
        layers = [_Layer(rank, backbone.places) for _ in range(LAYERS)]
        self.layers: nn.ModuleList = nn.ModuleList(layers)
        self.output_norm: RMSNorm = RMSNorm(rank, EPS)
        self.anchor_norm: RMSNorm = RMSNorm(rank, EPS)
        self.factor_input_proj: nn.Linear = nn.Linear(3 * rank, rank)
        self.out_head: nn.Linear = nn.Linear(rank, rank)
        self.in_head: nn.Linear = nn.Linear(rank, rank)
        self.anchor_out_head: nn.Linear = nn.Linear(rank, rank)

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
        x = x + self.feature_mlp(self.feature_norm(_features(log_probs)))
        x = (x + self.slot_embedding + self.rank_embedding).flatten(1, 2)
        for layer in self.layers:
            x = layer(x, self._count)
        x = self.output_norm(x)
        text = self.anchor_norm(self.context_proj(block.text))
        beside = text[:, None].expand_as(x)
        x = silu(self.factor_input_proj(torch.cat([x, beside, x * beside], dim=-1)))
        x = x.view(*candidates.shape, -1)
        leads, follows = (normalize(head(x), dim=-1) for head in (self.out_head, self.in_head))
        start = normalize(self.anchor_out_head(text), dim=-1)
        pairs = leads[:, :-1] @ follows[:, 1:].transpose(-1, -2)
        return SCALE * (follows[:, 0] @ start[..., None])[..., 0], SCALE * pairs


@final
class _Layer(nn.Module):
    """Attention over all candidates, biased by how far apart their places are, and a network."""

    def __init__(self, width: int, places: int) -> None:
        super().__init__()
        self._heads = HEADS if width % HEADS == 0 else 1
        self._places = places
        self.attn_norm: RMSNorm = RMSNorm(width, EPS)
        self.in_proj: nn.Linear = nn.Linear(width, 3 * width)
        self.out_proj: nn.Linear = nn.Linear(width, width)
        self.mlp_norm: RMSNorm = RMSNorm(width, EPS)
        self.mlp: nn.Sequential = _mlp(width, 2 * width, width)
        distances = 2 * places - 1  # at 0, candidates exclude each other
        self.relative_slot_bias: nn.Parameter = nn.Parameter(torch.zeros(self._heads, distances))

    def forward(
        self, x: Float[Tensor, "blocks nodes width"], count: int
    ) -> Float[Tensor, "blocks nodes width"]:
        """Returns the output. count: the number of candidates of each place."""
        place = torch.arange(self._places, device=x.device).repeat_interleave(count)
        bias = self.relative_slot_bias[:, place[:, None] - place + self._places - 1]
        read = self.in_proj(self.attn_norm(x)).chunk(3, dim=-1)
        queries, keys, values = (
            part.view(*part.shape[:2], self._heads, -1).transpose(1, 2) for part in read
        )
        mixed = scaled_dot_product_attention(queries, keys, values, attn_mask=bias.to(x.dtype))
        x = x + self.out_proj(mixed.transpose(1, 2).flatten(2))
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
