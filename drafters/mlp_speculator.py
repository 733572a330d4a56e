"""MLPSpeculator: stages in a row, which read the state of the last one and the newest token."""

from pathlib import Path
from typing import Any, Self, final

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.functional import embedding, gelu

from outrider.base.bounds import Count
from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.entries import ANY, Entry, Table, read_entries
from outrider.drafters.parts.networks.layer import Known, State
from outrider.drafters.parts.networks.trained import StagedDrafter, StagedNetwork
from outrider.drafters.parts.networks.vocabulary import Vocabulary

TABLE: Table = {
    "n_predict": Entry("stages", Count),
    "inner_dim": Entry("inner", Count),
    "scale_input": Entry("scale_input", bool, False),
    # The tensors say the first two, the others are of the trees that IBM drafts.
    **dict.fromkeys(("emb_dim", "tie_weights", "n_candidates", "top_k_tokens_per_head"), ANY),
}
"""The entries of IBM's configs."""


@final
class ScaledNorm(nn.Module):
    """Layer normalisation without a mean, and with a scale and a shift only if `learned`."""

    def __init__(self, width: int, *, learned: bool = True) -> None:
        super().__init__()
        self.weight: nn.Parameter | None = nn.Parameter(torch.ones(width)) if learned else None
        self.bias: nn.Parameter | None = nn.Parameter(torch.zeros(width)) if learned else None

    def forward(self, x: State) -> State:
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        if self.weight is None or self.bias is None:
            return x
        return torch.addcmul(self.bias, x, self.weight)


@final
class MLPSpeculatorNetwork(StagedNetwork):
    """The stages (2404.19124, section 3), with tensors named as in IBM's checkpoints.

    Each stage computes state = GELU(LN(W state + (w_e / w_s) embedding(token))) and
    logits = head(state), where w_s = 0.5 ** (0.5 / n) and w_e = sqrt((1 - w_s^2) inner / 2).

    stages: n, and so how many tokens a draft can have.
    inner: the width of the states. Defaults to the target's, and has to be that if `borrowed`.
    borrowed: whether tokens are embedded and predicted with the target's embeddings and head,
        through a matrix `out` for each stage, or else with tables for each stage.
    scale_input: whether the target's state is normalised first.
    """

    family = "mlp_speculator"

    def __init__(
        self,
        target: Target,
        vocabulary: Vocabulary,
        *,
        stages: int = 4,
        inner: int | None = None,
        borrowed: bool = True,
        scale_input: bool = False,
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.stages: int | None = stages
        self._embed(target)
        width = self._embedding.shape[1]
        inner = width if inner is None or borrowed else inner
        self.inner = inner
        self._shared_head = weights.BorrowedHead.of(target, vocabulary)
        self.borrowed_head: weights.BorrowedHead | None = self._shared_head if borrowed else None
        state_weight = 0.5 ** (0.5 / stages)
        embedding_weight = ((1 - state_weight**2) * inner / 2) ** 0.5
        self._ratio = embedding_weight / state_weight
        # The target's embeddings vary in size: these factors scale them to unit variance first.
        sizes = torch.linalg.vector_norm(self._embedding, dim=1, keepdim=True)
        self._factors = self._ratio * torch.rsqrt(sizes.square() / width + 1e-6)
        inputs = [width, *[inner] * (stages - 1)]
        self.proj: nn.ModuleList = nn.ModuleList(nn.Linear(n, inner, bias=False) for n in inputs)
        self.ln: nn.ModuleList = nn.ModuleList(ScaledNorm(inner) for _ in range(stages))
        own, size = range(0 if borrowed else stages), len(vocabulary)
        matrices = (nn.Linear(inner, width, bias=False) for _ in range(stages - len(own)))
        self.emb: nn.ModuleList = nn.ModuleList(nn.Embedding(vocabulary.size, inner) for _ in own)
        self.head: nn.ModuleList = nn.ModuleList(nn.Linear(inner, size, bias=False) for _ in own)
        self.out: nn.ModuleList = nn.ModuleList(matrices)
        self.ln0: ScaledNorm | None = ScaledNorm(width, learned=False) if scale_input else None

    def start(self, state: State) -> State:
        return state if self.ln0 is None else self.ln0(state) / 2**0.5

    def forward(self, stage: int, state: State, tokens: Int[Tensor, "*batch"]) -> State:
        projected = self.proj[stage](state)
        if len(self.emb):
            table: Any = self.emb[stage].weight
            mixed = torch.add(projected, embedding(tokens, table), alpha=self._ratio)
        else:
            word, factor = embedding(tokens, self._embedding), embedding(tokens, self._factors)
            mixed = torch.addcmul(projected, word, factor)
        return gelu(self.ln[stage](mixed))

    def logits(self, stage: int, state: State) -> Known:
        if len(self.head):
            logits: Tensor = self.head[stage](state)
            return logits
        return self._shared_head(self.out[stage](state))

    @classmethod
    def read_checkpoint(cls, folder: Path, target: Target) -> Self:
        config = checkpoint.read_config(folder)
        sizes = {**config, "hidden_size": config.get("emb_dim", config.get("hidden_size"))}
        sizes = {name: size for name, size in sizes.items() if size is not None}
        weights.require_fit(folder, sizes, target)
        options = read_entries(folder, config, cls.family, TABLE)
        file, tensors, vocabulary = weights.read_tensors(folder, target.vocab_size)
        tensors = checkpoint.replace_prefixes(tensors, {"speculator.": ""})
        borrowed = "head.0.weight" not in tensors
        return cls.with_tensors(tensors, file, target, vocabulary, borrowed=borrowed, **options)

    def save_checkpoint(self, folder: Path, target: Target) -> None:
        """Writes the stages as IBM's checkpoints name them, in half precision."""
        tensors = {f"speculator.{name}": tensor for name, tensor in self.state_dict().items()}
        sizes = {"n_predict": self.stages, "inner_dim": self.inner}
        self._write(folder, target, tensors, **sizes, scale_input=self.ln0 is not None)


@final
class MLPSpeculator(StagedDrafter[MLPSpeculatorNetwork]):
    """Drafts on the target's last state, stage by stage (2404.19124).

    path: a folder that `outrider train` has written, or one of IBM's accelerators; "untrained" for
        random weights. Defaults to the weights for SmolLM2 that come with the package.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.
    """

    def __init__(self, path: str | None = None, tree: Any = None) -> None:
        super().__init__(MLPSpeculatorNetwork, path, tree)
