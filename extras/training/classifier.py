"""The recipe of the classifier: decodes rounds, and learns which draft tokens were accepted."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Annotated, Any, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from outrider.base.bounds import Count, checked
from outrider.base.errors import ConfigError, require
from outrider.base.expectations import Above
from outrider.base.terminal import remark
from outrider.contract.draft import Draft
from outrider.contract.policy import Policy
from outrider.contract.round import Round
from outrider.extras.training.recipe import Job, Recipe
from outrider.policies.classifier import FEATURES, features, foresee, save_weights
from outrider.policies.nodes import NodeValues, tested_nodes

HELD_OUT = 5
"""One in this many prompts is held out, to choose the best step."""
WIDTH = 16
"""The width of the classifier's hidden layer."""


@final
class Recorder(Policy):
    """Drafts to the full depth; records tested tokens' features, and whether each was accepted."""

    def __init__(self) -> None:
        self.features: list[Tensor] = []
        self.accepted: list[bool] = []
        self._draft = NodeValues(features)

    def depth(self, gamma: int) -> int:
        return gamma

    def more(self, draft: Draft) -> bool:
        self._draft.of(draft)
        return True

    def observe(self, round: Round) -> None:
        for node, accepted in tested_nodes(round):
            token_features = self._draft.values[node]
            if token_features is not None:
                self.features.append(token_features)
                self.accepted.append(accepted)

    def samples(self) -> tuple[Float[Tensor, "n features"], Bool[Tensor, "n"]]:
        """Returns the features of all tokens, and whether each was accepted."""
        rows = torch.stack(self.features) if self.features else torch.zeros(0, FEATURES)
        return rows, torch.tensor(self.accepted, dtype=torch.bool)


@final
@checked("recipe")
@dataclass(frozen=True, kw_only=True)
class ClassifierRecipe(Recipe):
    """Decodes the prompts with the drafter, and fits the classifier to what was accepted.

    steps: of the optimizer; the weights that predict held-out prompts best are kept.
    rate: the learning rate of Adam.
    """

    steps: Count = 400
    rate: Annotated[float, Above(0)] = 0.02

    def __call__(self, job: Job) -> Mapping[str, Any]:
        """Raises `ConfigError` for fewer than two prompts, or if all tokens have one outcome."""
        require(len(job.prompts) > 1, "data", len(job.prompts), "two prompts, to hold one out")
        learned, held_out = Recorder(), Recorder()

        def recorder(number: int) -> Recorder:
            is_held_out = (number + 1) % HELD_OUT == 0 or number + 1 == len(job.prompts)
            return held_out if is_held_out else learned

        for _ in job.decoded(job.drafter(), recorder):
            pass  # what is recorded is all that is wanted
        seed, (x, y), held = job.sampling.seed or 0, learned.samples(), held_out.samples()
        weights, loss = fit(x, y, *held, seed=seed, steps=self.steps, rate=self.rate)
        path, count = job.out.with_suffix(".safetensors"), len(held[1])
        facts = {"tokens": len(y), "held_out": count, "held_out_loss": f"{loss:.4f}"}
        save_weights(weights, path, {name: str(value) for name, value in facts.items()})
        share = float(held[1].double().mean())
        job.log({"held_out": loss, "accepted": share}, self.steps)
        plainly = -sum(p * log(p) for p in (share, 1 - share) if p > 0)  # the mean for every token
        remark(
            f"Of {count} held-out tokens {share:.0%} were accepted: cross entropy {loss:.3f}"
            f" nats, {plainly:.3f} without features ({len(y)} tokens to learn from)",
            stderr=False,
        )
        remark(path, stderr=False)
        return {"policy": "classifier", "path": str(path)}


def fit(
    x: Float[Tensor, "n features"],
    y: Bool[Tensor, "n"],
    held_x: Float[Tensor, "held features"],
    held_y: Bool[Tensor, "held"],
    *,
    seed: int = 0,
    steps: int = 400,
    rate: float = 0.02,
) -> tuple[dict[str, Tensor], float]:
    """Returns the weights that predict `held_y` best, and their cross entropy there, in nats.

    x, y: the features of the tokens to learn from, and whether they were accepted.

    Raises `ConfigError` if all tokens were accepted, all were rejected, or none is held out.
    """
    if not (y.any() and not y.all() and len(held_y)):
        raise ConfigError(
            f"data: {int(y.sum())} of {len(y)} tokens were accepted, {len(held_y)} held out:"
            " expected accepted, rejected and held-out ones: use more prompts, or a drafter that"
            " draws"
        )
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(FEATURES, WIDTH, generator=generator, dtype=x.dtype) / FEATURES**0.5
    # The last layer starts at 0, so every token starts with probability one half.
    zeros = {"b1": (WIDTH,), "w2": (WIDTH, 1), "b2": (1,)}
    trained = {"w1": first} | {name: x.new_zeros(shape) for name, shape in zeros.items()}
    scaling = {"mean": x.mean(0), "scale": x.std(0).clamp(min=1e-6)}
    optimizer = torch.optim.Adam([tensor.requires_grad_() for tensor in trained.values()], lr=rate)
    best, least = trained, float("inf")
    for _ in range(steps):
        with torch.no_grad():
            loss = float(_loss(scaling | trained, held_x, held_y))
        if loss < least:
            best = {name: tensor.detach().clone() for name, tensor in trained.items()}
            least = loss
        optimizer.zero_grad()
        torch.autograd.backward(_loss(scaling | trained, x, y))
        optimizer.step()
    return scaling | best, least


def _loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    return torch.nn.functional.binary_cross_entropy(foresee(weights, x), y.to(x.dtype))
