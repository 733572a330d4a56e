"""Recorded drafts: the texts and distributions of drafts that are drawn step by step."""

from itertools import cycle, product
from typing import Any

import pytest
from tiny.graph_replayer import GraphReplayer, drafter_of, run_by
from torch import Tensor

from outrider import Sampling, decode, decode_together
from outrider.extras.graphs.engines import RecordedPasses
from outrider.plugins.parts import make
from outrider.targets.passes.growing_tensor import GrowingTensor
from outrider.testing.tiny_targets import tiny_target
from tests.devices import FAR, accelerator, moved


def settings(drafter: Any) -> Any:
    return {"drafter": drafter} if isinstance(drafter, str) else drafter


HEADS: tuple[Any, ...] = ("medusa", "hydra", "mlp_speculator", "redrafter")
CORRECTORS = ("markov", "domino", "xpress", "lilicorr")
BLOCKS = ("peagle", "dflash", *({"drafter": "dflash", "corrector": it} for it in CORRECTORS))
FORESEEN = {"drafter": "dflash", "corrector": "markov", "confidence": 0.2}
IN_ROWS = ("eagle3", "eagle", "mtp", "small_lm", "pard", *HEADS, *BLOCKS, FORESEEN)
TREES = ("dynamic:3", "replay:2", "top:2x2", "2x2x1", "paths:2", "sequoia:.6,.2")
GROWN = [{"drafter": "eagle3", "tree": tree} for tree in TREES]
OTHERS = [{**settings(it), "tree": tree} for it in BLOCKS[:4] for tree in ("top:2x2", "2x2x1")]
OTHERS += [{"drafter": it, "tree": tree} for it in HEADS for tree in ("dynamic:2", "2x2x1")]
OTHERS += [{"drafter": it, "tree": "dynamic:2"} for it in ("eagle", "mtp", "small_lm", "pard")]
OTHERS += [{"drafter": it, "tree": "2x2x1"} for it in ("small_lm", "pard")]
SAMPLINGS: list[Any] = [
    (Sampling(), "fixed"),
    (Sampling(temperature=1, seed=3), "fixed"),
    (Sampling(temperature=0.7, top_p=0.8), {"policy": "confidence", "threshold": 0.4}),
]
RULES = cycle(["token", "block", "rejection", "lenient"])
BATCHES = [(*pair, *how) for *pair, how in zip(IN_ROWS, RULES, cycle(SAMPLINGS))]
BATCHES += [("eagle3", rule, *how) for rule, how in zip(RULES, SAMPLINGS, strict=False)]
BATCHES += [(GROWN[0], "candidates", *SAMPLINGS[2])]
TOGETHER = [GROWN[2], GROWN[3], GROWN[5], OTHERS[0], *OTHERS[7::4]]
BATCHES += [(it, "traversal", *how) for it, how in zip(TOGETHER, cycle(SAMPLINGS[:2]))]
ALONE = [(drafter, *how) for drafter, how in product(["eagle3", *GROWN], SAMPLINGS)]
ALONE += [(drafter, *how) for drafter, how in zip(IN_ROWS[1:], cycle(SAMPLINGS))]
# Where few tokens are left, siblings may run out, and then have other numbers than step by step.
ALONE += [(drafter, *how) for drafter, how in zip(OTHERS, cycle(SAMPLINGS[:2]))]


def texts(target: Any, drafter: Any, sampling: Sampling, policy: Any) -> list[Any]:
    """Returns what was drafted and written in the rounds of two texts."""
    found, rule = [], make("verifier", "traversal" if drafter.trees else "token")
    for number, prompt in enumerate(([*range(3, 20)], [7, 5, 3, 8] * 3)):
        options: dict[str, Any] = {"gamma": 3, "max_new_tokens": 20, "number": number}
        options |= {"budget": 9} if drafter.trees else {}
        options |= {"sampling": sampling, "policy": make("policy", policy)}
        rounds = decode(target, drafter, rule, prompt, **options)
        found += [(round.draft, round.parents, round.tokens) for round in rounds]
    return found


@pytest.mark.device
@pytest.mark.parametrize(("drafter", "rule", "sampling", "policy"), BATCHES)
def test_drafts_of_texts_that_come_and_go_are_one_recording(
    drafter: Any, rule: str, sampling: Sampling, policy: Any
) -> None:
    """Their verdicts too, however many tokens were drafted for each."""
    target, record = tiny_target(400), GraphReplayer() if FAR.type == "meta" else None
    prompts = [[*range(3, 3 + length)] for length in (5, 17, 3, 60, 9, 12)]

    def rounds(drafter: Any) -> list[Any]:
        policies = [make("policy", policy) for _ in prompts]
        options: dict[str, Any] = {"gamma": 3, "max_new_tokens": 12, "batch_size": 3}
        options |= {"sampling": sampling, "policies": policies}
        options |= {"budget": 9} if drafter.trees else {}
        found = decode_together(target, drafter, make("verifier", rule), prompts, **options)
        return [(index, round.draft, round.tokens) for index, round in found]

    expected = rounds(drafter_of(settings(drafter), 400))
    with accelerator() as device:
        moved(target.model, device)
        engine = RecordedPasses(record)
        run_by(engine, target.model)
        assert rounds(drafter_of(settings(drafter), 400, engine, device)) == expected
    # One for each depth and each size of a pass, of which trees have more, and for one text left.
    if record is not None:
        most = 12 if rule != "traversal" else 14
        assert 0 < record.recorded <= most and record.replays > record.recorded


@pytest.mark.device
@pytest.mark.parametrize(("drafter", "sampling", "policy"), ALONE)
def test_recorded_drafts_are_those_drawn_step_by_step(
    drafter: Any, sampling: Sampling, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stands in the buffers beyond a text, and in what the last replay wrote."""
    reserve, made = GrowingTensor.reserve, set[int]()

    def poisoned(rows: GrowingTensor, count: int, like: Tensor) -> Tensor:
        buffer = reserve(rows, count, like)
        if count > len(rows) > 0 or id(buffer) not in made:  # of several texts, no length is kept
            buffer[..., len(rows) :, :] = 9.0
        made.add(id(buffer))
        return buffer

    monkeypatch.setattr(GrowingTensor, "reserve", poisoned)
    target, record = tiny_target(400), GraphReplayer() if FAR.type == "meta" else None
    expected = texts(target, drafter_of(settings(drafter), 400), sampling, policy)
    with accelerator() as device:
        moved(target.model, device)
        engine = RecordedPasses(record)
        run_by(engine, target.model)
        far = drafter_of(settings(drafter), 400, engine, device)
        assert texts(target, far, sampling, policy) == expected
    # One for each depth, which falls at the end, and one for each size of a pass; for both texts.
    if record is not None:
        assert 0 < record.recorded <= 10 and record.replays > len(expected) / 2
