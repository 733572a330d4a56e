"""Pens, unless said otherwise for drafts of three tokens of a vocabulary of four."""

from typing import Any

import torch

from outrider import Chance, Pen, SampledChance, Sampling
from outrider.contract.sheet import Sheet

SAMPLED = Sampling(temperature=1.0)
LOGITS = torch.tensor([0.0, 1.0, 2.0, -1.0], dtype=torch.float64)


def new_pen(chance: Chance | None = None, sampling: Sampling = SAMPLED, **options: Any) -> Pen:
    return Pen(
        Sheet(
            sampling=sampling,
            chance=chance or SampledChance.seeded(0),
            **{"vocab_size": 4, "gamma": 3} | options,
        )
    )
