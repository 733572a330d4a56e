"""MLPSpeculator: heads in a row, each of which reads the state before it and the token just drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding, gelu

from outrider.contract.context import Context
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafter_parts import checkpoint, weights
from outrider.drafter_parts.trees import parse
from outrider.drafter_parts.vocabulary import Vocabulary
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.runtime.cached_model import HIDDEN


@final
class ScaledNorm(nn.Module):
    """Layer normalisation without subtracting the mean; the scale and shift may be missing."""

    def __init__(self, width: int, *, learned: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width)) if learned else None
        self.bias = nn.Parameter(torch.zeros(width)) if learned else None

    def forward(self, x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        return x if self.weight is None or self.bias is None else x * self.weight + self.bias


@final
class MLPSpeculatorNetwork(nn.Module):
    """The stages (2404.19124, section 3), with the names of IBM's checkpoints.

    Each: state = GELU(LN(W state + (w_e / w_s) embedding(token))), logits = head(state), where
    w_s = 0.5 ** (0.5 / n) and w_e = sqrt((1 - w_s^2) inner / 2).

    stages: n, how many places ahead. inner: the width of the states.
    borrowed: read tokens with the target's embeddings and write them with its head, through a
        matrix of each stage's own (`out`), instead of with tables of its own; `inner` is then
        the target's width.
    """

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
        self.stages = stages
        given = weights.embedding(target).detach()
        width = given.shape[1]
        inner = width if inner is None or borrowed else inner
        self.inner = inner
        self._embedding = given
        self._head = weights.Head(vocabulary.rows(weights.head(target).detach()))
        kept = 0.5 ** (0.5 / stages)
        added = ((1 - kept**2) * inner / 2) ** 0.5
        self._ratio = added / kept
        widths = [width, *[inner] * (stages - 1)]
        self.proj = nn.ModuleList(nn.Linear(each, inner, bias=False) for each in widths)
        self.ln = nn.ModuleList(ScaledNorm(inner) for _ in range(stages))
        self.emb = nn.ModuleList()
        self.head = nn.ModuleList()
        self.out = nn.ModuleList()
        if borrowed:
            self.out.extend(nn.Linear(inner, width, bias=False) for _ in range(stages))
        else:
            size = len(vocabulary)
            self.emb.extend(nn.Embedding(vocabulary.size, inner) for _ in range(stages))
            self.head.extend(nn.Linear(inner, size, bias=False) for _ in range(stages))
        self.ln0 = ScaledNorm(width, learned=False) if scale_input else None

    def start(self, state: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        """Returns the state that the first stage reads, from the target's."""
        return state if self.ln0 is None else self.ln0(state) / 2**0.5

    def forward(
        self, stage: int, state: Float[Tensor, "*rows w"], tokens: Int[Tensor, "*rows"]
    ) -> Float[Tensor, "*rows inner"]:
        """Returns the state behind stage `stage`, given the one before and the newest token."""
        table: Any = self.emb[stage].weight if len(self.emb) else self._embedding
        word = embedding(tokens, table)
        if not len(self.emb):  # the target's tables are not scaled for this: unit variance
            word = word * torch.rsqrt(word.square().mean(-1, keepdim=True) + 1e-6)
        return gelu(self.ln[stage](self.proj[stage](state) + self._ratio * word))

    def logits(self, stage: int, state: Float[Tensor, "*rows inner"]) -> Float[Tensor, "*rows v"]:
        """Returns the scores of the token that stage `stage` is for."""
        if len(self.head):
            scores: Tensor = self.head[stage](state)
            return scores
        return self._head(self.out[stage](state))


@final
class MLPSpeculator(Drafter):
    """Drafts from the state that gave the last token, stage by stage (2404.19124).

    path: a folder that `outrider train` has written, or one of IBM's accelerators; the weights for
        SmolLM2 that come with the package unless told; "untrained" for random ones.
    tree: a shape to fill, see `outrider.drafter_parts.trees`; a chain unless told.

    Raises `ConfigError` in `bind` where the weights don't fit the target, naming the tensor.
    """

    needs = frozenset({"model", HIDDEN})

    def __init__(self, path: str | None = None, tree: Any = None) -> None:
        self._path = path
        self._shape = parse(tree)
        self.kind = self._shape.kind
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is not target:
            self._network = read(self._path, target)
            self._target = target

    @torch.no_grad()
    def propose(self, context: Context, pen: Pen) -> None:
        features = context.features.get(HIDDEN)
        if not pen.open or features is None:
            return
        network = self._network
        pen.gamma = min(pen.gamma, network.stages)
        before = network.start(features[len(context.tokens) - 2])
        newest = context.tokens[-1]
        states: dict[tuple[int, ...], Tensor] = {}

        def probs(nodes: Sequence[int], paths: Sequence[Sequence[int]]) -> Tensor:
            stage = len(paths[0])
            past = [states[tuple(path[:-1])] if path else before for path in paths]
            tokens = torch.tensor([path[-1] if path else newest for path in paths])
            now = network(stage, torch.stack(past), tokens.to(before.device))
            states.update((tuple(path), state) for path, state in zip(paths, now, strict=True))
            return network.vocabulary.spread(network.logits(stage, now))

        self._shape.grow(pen, probs)


def fresh(
    target: Target, vocabulary: Vocabulary, *, seed: int = 0, **shape: Any
) -> MLPSpeculatorNetwork:
    """Returns stages that fit a target, with random weights."""
    return weights.untrained(
        lambda: MLPSpeculatorNetwork(target, vocabulary, **shape), target, seed
    )


def read(path: str | None, target: Target) -> MLPSpeculatorNetwork:
    """Returns the stages in a folder, for a target."""
    if path == weights.UNTRAINED:
        return fresh(target, Vocabulary(target.vocab_size))
    place = weights.folder("mlp_speculator", path)
    config = checkpoint.read_config(place)
    sizes = {**config, "hidden_size": config.get("emb_dim", config.get("hidden_size"))}
    weights.fits(place, {name: each for name, each in sizes.items() if each is not None}, target)
    file, tensors = checkpoint.tensors_in(place)
    tensors = checkpoint.renamed(tensors, {"speculator.": ""})
    vocabulary = Vocabulary(target.vocab_size, tensors.pop("vocabulary", None))
    return weights.filled(
        lambda: MLPSpeculatorNetwork(
            target,
            vocabulary,
            stages=int(config["n_predict"]),
            inner=int(config["inner_dim"]),
            borrowed="head.0.weight" not in tensors,
            scale_input=bool(config.get("scale_input", False)),
        ),
        target,
        tensors,
        file,
    )


def save(network: MLPSpeculatorNetwork, folder: Path, config: Mapping[str, Any]) -> None:
    """Writes the stages as IBM's checkpoints name them, in half precision."""
    tensors = {f"speculator.{name}": tensor for name, tensor in network.state_dict().items()}
    if network.vocabulary.ids is not None:
        tensors["vocabulary"] = network.vocabulary.ids
    checkpoint.save(folder, tensors, config, torch.float16)


@hookimpl
def register_drafters(register: Register) -> None:
    register("mlp_speculator", MLPSpeculator)
