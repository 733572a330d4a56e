"""The recipe of the classifier: rounds are decoded, and what was accepted of them is learned."""

from math import log
from typing import final

import torch
from jaxtyping import Bool, Float
from rich.progress import track
from torch import Tensor

from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Policy
from outrider.contract.round import Round
from outrider.decoding.decode import decode
from outrider.errors import ConfigError, require
from outrider.lab.texts import seeded
from outrider.policies.classifier import FEATURES, features, foresee, save_weights
from outrider.prompts import Prompt
from outrider.training.job import Job

HELD = 5
"""One prompt in so many is held out, to tell when to stop."""
HIDDEN = 16


@final
class Recorder(Policy):
    """Drafts as deep as it may, and notes of each tested token what the classifier sees of it.

    seen: the features; accepted: whether the token was.
    """

    def __init__(self) -> None:
        self.seen: list[Tensor] = []
        self.accepted: list[bool] = []
        self._draft: list[Tensor | None] = []

    def depth(self, gamma: int) -> int:
        self._draft = []
        return gamma

    def more(self, draft: Draft) -> bool:
        self._draft.append(features(draft))
        return True

    def observe(self, round: Round) -> None:
        for place, seen in enumerate(self._draft[: round.tested]):
            if seen is not None:
                self.seen.append(seen)
                self.accepted.append(place < round.accepted)


def train(job: Job, *, steps: int = 400, rate: float = 0.02) -> None:
    """Decodes the prompts with the drafter, and fits the classifier to what was accepted.

    steps: of the optimizer, at most; the weights that foresee held-out prompts best are kept.
    rate: the optimizer's (Adam).

    Raises:
        ConfigError: there are fewer than two prompts, or nothing to tell apart.
    """
    require(len(job.prompts) > 1, "data", len(job.prompts), "two prompts, to hold one out")
    drafter = job.drafter()
    learn, held = Recorder(), Recorder()
    last = len(job.prompts)
    for number, prompt in enumerate(track(job.prompts, "Decoding", console=job.console), start=1):
        _record(job, drafter, prompt, held if number % HELD == 0 or number == last else learn)
    x, y = _stacked(learn)
    held_x, held_y = _stacked(held)
    weights, loss = fit(x, y, held_x, held_y, seed=job.sampling.seed, steps=steps, rate=rate)
    place = job.out.with_suffix(".safetensors")
    facts = {"tokens": len(y), "held_out": len(held_y), "held_out_loss": f"{loss:.4f}"}
    save_weights(weights, place, {name: str(value) for name, value in facts.items()})
    share = float(held_y.double().mean())
    job.console.print(
        f"Of {len(held_y)} held-out tokens {share:.0%} were accepted: cross entropy {loss:.3f}"
        f" nats, {_entropy(share):.3f} without features ({len(y)} tokens to learn from)"
    )
    job.console.print(str(place), soft_wrap=True)


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
    """Returns the weights that foresee `held_y` best, and their cross entropy there, in nats.

    Raises:
        ConfigError: the tokens are all accepted, or all rejected, or none is held out.
    """
    if not (y.any() and not y.all() and len(held_y)):
        raise ConfigError(
            f"data: {int(y.sum())} of {len(y)} tokens were accepted, {len(held_y)} held out:"
            " expected some of both kinds, so take more prompts, or a drafter that draws"
        )
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(FEATURES, HIDDEN, generator=generator, dtype=x.dtype) / FEATURES**0.5
    # The last layer starts at 0, and with it every token at one half.
    learned = {
        "w1": first,
        "b1": x.new_zeros(HIDDEN),
        "w2": x.new_zeros(HIDDEN, 1),
        "b2": x.new_zeros(1),
    }
    scaling = {"mean": x.mean(0), "scale": x.std(0).clamp(min=1e-6)}
    optimizer = torch.optim.Adam([tensor.requires_grad_() for tensor in learned.values()], lr=rate)
    best, least = learned, float("inf")
    for _ in range(steps):
        with torch.no_grad():
            loss = float(_loss(scaling | learned, held_x, held_y))
        if loss < least:
            best = {name: tensor.detach().clone() for name, tensor in learned.items()}
            least = loss
        optimizer.zero_grad()
        torch.autograd.backward(_loss(scaling | learned, x, y))
        optimizer.step()
    return scaling | best, least


def _loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    return torch.nn.functional.binary_cross_entropy(foresee(weights, x), y.to(x.dtype))


def _record(job: Job, drafter: Drafter, prompt: Prompt, recorder: Recorder) -> None:
    tokens = job.target.encode_turns(prompt.turns[:1], chat=job.chat)
    for _ in decode(
        job.target,
        drafter,
        job.verifier,
        tokens,
        gamma=job.gamma,
        sampling=seeded(job.sampling, tokens),
        policy=recorder,
        max_new_tokens=job.max_new_tokens,
    ):
        pass


def _stacked(recorder: Recorder) -> tuple[Tensor, Tensor]:
    seen = torch.stack(recorder.seen) if recorder.seen else torch.zeros(0, FEATURES)
    return seen, torch.tensor(recorder.accepted, dtype=torch.bool)


def _entropy(share: float) -> float:
    """Returns the cross entropy, in nats, of foreseeing nothing but the mean."""
    return -sum(p * log(p) for p in (share, 1 - share) if p > 0)
