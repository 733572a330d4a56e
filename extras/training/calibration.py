"""The recipe of a calibration: what a confidence head says becomes the share that is accepted."""

import json
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from outrider.base.errors import ConfigError, require
from outrider.base.folders import write_whole
from outrider.base.terminal import remark
from outrider.drafters.dflash.config import DFlashConfig
from outrider.drafters.dflash.drafter import DFlash
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import weights
from outrider.extras.training.recipe import Job, Recipe

FILE = "calibration.json"
"""What was measured, beside the weights."""

WEIGHT = 1.0
"""How strongly a pair is drawn towards (1, 0), as if so many tokens spoke for it: places where few
tokens were tested, or all accepted, stay close to what the head says."""

BINS = 10
"""The groups of equally many tokens in which the error is measured."""

FIELDS: list[tuple[str, type]] = [
    ("half", int),
    ("place", int),
    ("logit", float),
    ("accepted", bool),
]
"""Of each draft token that the target tested: of which half of the prompts it is, 0 or 1; how many
tokens of its draft come before it; what the confidence head said; whether it was accepted."""

Tokens = np.recarray[Any, Any]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@final
class CalibrationRecipe(Recipe):
    """Calibrates the confidence head of `dflash`, on prompts that it has not learned from.

    The prompts are decoded with whole drafts. For each place, a factor on the head's logit and a
    summand are fitted to what the target accepted there, among the drafts whose earlier tokens it
    had accepted (Platt scaling). DSpark (2607.05147) fits the factor alone, a temperature, to one
    place after the other. To judge this, either half of the prompts is also calibrated by the
    other.
    """

    def __call__(self, job: Job) -> Mapping[str, Any]:
        """Raises `ConfigError` for another drafter, fewer than two prompts, or untested drafts."""
        require(len(job.prompts) > 1, "data", len(job.prompts), "two prompts, to judge one half")
        drafter = job.drafter()
        given = getattr(drafter, "confidence", None)
        if not isinstance(drafter, DFlash) or given != 0:
            expected = "0, and a dflash with a confidence head"
            raise ConfigError(f"drafter.confidence={given}: expected {expected}")
        folder = weights.folder("dflash", drafter.path)
        places = DFlashConfig.read(folder).drafted
        rows = [
            (number % 2, place, logit, place < round.accepted)
            for number, round in job.decoded(drafter)
            for place, logit in enumerate(drafter.foreseen[: round.tested])
        ]
        if not rows:
            raise ConfigError(f"data: no draft was tested on {len(job.prompts)} prompts")
        tokens = np.rec.fromrecords(rows, dtype=FIELDS)
        pairs, errors = fitted(tokens, places), errors_of(tokens, places)
        facts = {"tokens": len(tokens.place), "errors": errors}
        shutil.copytree(folder, job.out, dirs_exist_ok=True)
        config = checkpoint.read_config(folder) | {"calibration": pairs.tolist()}
        write_whole(job.out / checkpoint.CONFIG, json.dumps(config, indent=1) + "\n")
        write_whole(job.out / FILE, json.dumps(facts, indent=1) + "\n")
        job.log({name: after for name, (_, after) in errors.items()}, 1)
        for name, (before, after) in errors.items():
            remark(f"{name}: {before:.3f}, calibrated {after:.3f}", stderr=False)
        remark(job.out, stderr=False)
        return {"drafter": "dflash", "path": str(job.out), "confidence": 0.3}


def errors_of(tokens: Tokens, places: int) -> dict[str, tuple[float, float]]:
    """Returns how far off the head is, before and after it is calibrated by the other half."""
    before, after = expit(tokens.logit), np.empty_like(tokens.logit)
    for half in (0, 1):
        own = tokens.half == half
        pairs = fitted(tokens[~own], places)
        after[own] = calibrated(pairs, tokens[own])
    measures: dict[str, Callable[[Floats, Bools], float]] = {
        "calibration error": partial(calibration_error, bins=BINS),
        "cross entropy": cross_entropy,
    }
    accepted = tokens.accepted
    return {name: (of(before, accepted), of(after, accepted)) for name, of in measures.items()}


def fitted(tokens: Tokens, places: int) -> Floats:
    """Returns a factor and a summand by place, [places, 2], that make the outcomes likeliest."""
    from scipy.optimize import minimize  # takes long to import

    def pair_at(place: int) -> Floats:
        here = tokens[tokens.place == place]
        sign = np.where(here.accepted, -1.0, 1.0)

        def loss(pair: Floats) -> float:
            terms = np.logaddexp(0, sign * (pair[0] * here.logit + pair[1]))
            return float(terms.sum() + WEIGHT * ((pair - (1, 0)) ** 2).sum())

        best: Floats = minimize(loss, np.array([1.0, 0.0])).x
        return best

    return np.stack([pair_at(place) for place in range(places)])


def calibrated(pairs: Floats, tokens: Tokens) -> Floats:
    """Returns how likely each token is to be accepted."""
    factor, added = pairs[tokens.place].T
    probabilities: Floats = expit(factor * tokens.logit + added)
    return probabilities


def calibration_error(foreseen: Floats, accepted: Bools, bins: int) -> float:
    """Returns the expected calibration error (1706.04599, Equation 3), in groups of equal size."""
    groups = np.array_split(np.argsort(foreseen, kind="stable"), min(bins, len(foreseen)))
    gaps = [len(g) * abs(foreseen[g].mean() - accepted[g].mean()) for g in groups]
    return float(sum(gaps) / len(foreseen))


def cross_entropy(foreseen: Floats, accepted: Bools) -> float:
    """Returns the mean of the negative log-probability of what came, in nats."""
    came = np.where(accepted, foreseen, 1 - foreseen)
    return float(-np.log(np.maximum(came, 1e-12)).mean())
