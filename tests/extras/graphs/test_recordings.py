"""Recorded drafts: the texts and distributions of drafts that are drawn step by step."""

from typing import Any

import pytest
from tiny.graph_replayer import GraphReplayer
from torch import Tensor

from outrider import Sampling, decode
from outrider.extras.graphs.engines import RecordedPasses
from outrider.plugins.parts import make
from outrider.targets.passes.engine import note_engine
from outrider.targets.passes.growing_tensor import GrowingTensor
from outrider.testing.tiny_targets import tiny_target
from tests.devices import FAR, accelerator, moved

DRAFTERS = ("eagle3", "eagle", "dflash", "medusa", "hydra", "mlp_speculator", "redrafter")
SAMPLINGS: list[Any] = [
    (Sampling(), "fixed"),
    (Sampling(temperature=1, seed=3), "fixed"),
    (Sampling(temperature=0.7, top_p=0.8), {"policy": "confidence", "threshold": 0.4}),
]


def texts(target: Any, name: str, sampling: Sampling, policy: Any) -> list[Any]:
    """Returns what was drafted and written in the rounds of two texts."""
    drafter, found = make("drafter", {"drafter": name, "path": "untrained"}), []
    for number, prompt in enumerate(([*range(3, 20)], [7, 5, 3, 8] * 3)):
        options: dict[str, Any] = {"gamma": 3, "max_new_tokens": 20, "number": number}
        options |= {"sampling": sampling, "policy": make("policy", policy)}
        rounds = decode(target, drafter, make("verifier", "token"), prompt, **options)
        found += [(round.draft, round.tokens) for round in rounds]
    return found


@pytest.mark.device
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize(("sampling", "policy"), SAMPLINGS, ids=["greedy", "sampled", "until"])
def test_recorded_drafts_are_those_drawn_step_by_step(
    drafter: str, sampling: Sampling, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stands in the buffers beyond a text, and in what the last replay wrote."""
    reserve = GrowingTensor.reserve

    def poisoned(rows: GrowingTensor, count: int, like: Tensor) -> Tensor:
        buffer = reserve(rows, count, like)
        buffer[..., len(rows) :, :] = 9.0
        return buffer

    monkeypatch.setattr(GrowingTensor, "reserve", poisoned)
    target, record = tiny_target(400), GraphReplayer() if FAR.type == "meta" else None
    expected = texts(target, drafter, sampling, policy)
    with accelerator() as device:
        moved(target.model, device)
        note_engine(target.model, RecordedPasses(record))
        assert texts(target, drafter, sampling, policy) == expected
    if record is not None:  # one for each depth, which falls at the end; for both texts
        assert 0 < record.recorded <= 3 and record.replays > len(expected) / 2
