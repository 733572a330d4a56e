"""A run is held to a baseline: `fail_if` by paired tests, on runs that are simulated."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outrider.base.bounds import values_of
from outrider.base.errors import ConfigError
from outrider.cli.gate import Gate
from outrider.cli.settings import Condition
from outrider.lab.measuring.measurement import Decoding, Measurement, Overlap, Step
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary

PROMPTS, GAMMA, CALL = 40, 4, 0.01
DROPS = ("alpha < -0.02", "block_efficiency < -0.1", "speedup < -0.1")


def rerun(seed: int, **alphas: float) -> Summary:
    """A run of drafters that are accepted with these rates, more on some prompts than on others."""
    chance, measurements = np.random.default_rng(seed), list[Measurement]()
    for prompt in range(PROMPTS):
        for name, mean in alphas.items():
            alpha = mean + 0.1 * np.sin(prompt)
            betas = chance.normal(alpha, 0.15, 60).clip(0, 1)
            drafts = chance.random((20, GAMMA)) < alpha
            accepted = drafts.cumprod(1).sum(1).tolist()
            zeros = (0.0,) * GAMMA
            sums = Overlap(
                (60.0,) * GAMMA, (60.0,) * GAMMA, (betas.sum(), 0, 0, 0), *(zeros,) * 3, 0
            )
            place = f"p{prompt}", 1, "chat", name
            measurements.append(Measurement(*place, overlap=sums))
            steps = tuple(step(count) for count in accepted)
            seconds = CALL * (len(steps) * 1.3 + chance.normal(0, 0.3))
            text = Decoding(steps, seconds, CALL, CALL)
            measurements.append(Measurement(*place, decoding=text))
    facts: dict[str, Any] = {
        "settings": {"gamma": GAMMA},
        "drafters": {name: {} for name in alphas},
        "protocols": ["overlap", "decode"],
        "questions": [[f"p{prompt}", 1, f"Question {prompt}"] for prompt in range(PROMPTS)],
        "lossless": dict.fromkeys(alphas, True),
    }
    return Summary(Run(Path("run"), facts, tuple(measurements)))


def step(accepted: int) -> Step:
    count = accepted + 1
    tested = min(count, GAMMA)
    names = ("accepted",) * accepted + ("bonus",)
    one = ((0,) * count, names, ("",) * count, GAMMA, tested, accepted, (1,) * tested)
    return Step(*one, (0,) * accepted, 0.001, 0.01, 0.001, None)


def condition(words: str) -> Condition:
    found: Condition = values_of({"fail_if": Condition | None}, {"fail_if": words})["fail_if"]
    return found


@pytest.mark.parametrize("drop", DROPS)
def test_a_planted_regression_fails_and_reruns_pass(drop: str) -> None:
    gate = Gate(rerun(0, eagle=0.6, medusa=0.5), condition(drop))
    passed, line = gate.judged(rerun(1, eagle=0.45, medusa=0.5))
    assert not passed and "eagle -0." in line and "medusa" not in line and "\n" not in line
    passed, line = gate.judged(rerun(2, eagle=0.6, medusa=0.8))  # better is no regression
    assert passed and "not shown" in line
    reruns = [gate.judged(rerun(seed, eagle=0.6, medusa=0.5))[0] for seed in range(10, 60)]
    assert all(reruns)


def test_a_drop_is_tested_beyond_the_number_that_is_allowed() -> None:
    baseline, worse = rerun(0, eagle=0.6), rerun(1, eagle=0.5)
    (pair,) = Gate(baseline, condition("alpha < -0.05")).pairs(worse)
    figures = [summary.rows[0].rates["alpha"] for summary in (worse, baseline)]
    expected = figures[0].value - figures[1].value + 0.05
    assert pair.difference.value == pytest.approx(expected, abs=1e-12)
    assert Gate(baseline, condition("alpha < -0.15")).judged(worse)[0]


def test_a_baseline_has_the_rate_a_drafter_and_a_prompt_of_the_run() -> None:
    gate = Gate(rerun(0, eagle=0.6, medusa=0.5), condition("alpha < 0"))
    facts = rerun(1, eagle=0.6).run.facts
    gate.check(facts)
    for changed, expected in (
        ({"drafters": {"hydra": {}}}, "baseline='hydra': expected a run with any of eagle, medusa"),
        ({"questions": [["p1", 1, "Another"]]}, "expected a run on some of these prompts"),
        ({"protocols": ["decode"]}, "fail_if='alpha': expected a rate of protocol=decode"),
    ):
        with pytest.raises(ConfigError, match=expected):
            gate.check(facts | changed)
    for folder, given in (("out", None), (None, condition("alpha < 0"))):
        with pytest.raises(ConfigError, match="expected both baseline and fail_if"):
            Gate.of(folder, given)


def test_compare_exits_with_status_1_if_the_run_is_worse(run: Any, quick: Any) -> None:
    model = next(word for word in quick if word.startswith("target.model=")).partition("=")[2]
    words = (*quick, "data=demo", "data.limit=8", "turns=1", "protocol=overlap", "reports=[]")
    same = f"drafters=[{{drafter: small_lm, model: {model}, name: head}}]"
    words = tuple(word for word in words if not word.startswith(("data.path=", "data=jsonl")))
    run.done("compare", *words, same, "hydra.run.dir=out")
    held = (*words, "baseline=out", "fail_if=alpha < -0.02")
    run.done("compare", *held, same, "hydra.run.dir=again")
    worse = "drafters=[{drafter: bigram, name: head}]"
    status, _, errors = run("compare", *held, worse, "hydra.run.dir=worse")
    assert status == 1 and "outrider: fail_if, alpha < -0.02: head -" in errors.splitlines()[-1]
