"""A comparison on several workers, on a Ray without processes.

`evidence/workers.py` does the same on Ray itself, and kills a process.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny.stub_ray import StubRay

from outrider import Context, Pen
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.extras.ray.cluster import connected, private_settings
from outrider.lab.runs.run import Run, load

DOCUMENTED = "outrider compare workers=4 drafters=[none,bigram]"
"""What the docs have; tests/test_docs.py looks for it here."""


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> StubRay:
    stub = StubRay(CPU=4.0)
    monkeypatch.setattr("outrider.extras.ray.cluster.connected", lambda *_, **__: stub)
    return stub


def measured(run: Run) -> tuple[dict[Any, Any], Mapping[str, Any]]:
    """Returns what a run measured and what it says of itself, but for times."""
    found = {
        (each.protocol, each.prompt, each.turn, each.drafter): each.overlap
        or [(step.tokens, step.origins) for step in each.decoding.steps]
        for each in run.measurements
    }
    timed = ("starts", "ends")
    return found, {name: fact for name, fact in run.facts.items() if name not in timed}


@pytest.mark.parametrize("protocol", ["both", "decode"])
def test_several_workers_measure_the_same_as_one_process(
    compared: Any, ray: StubRay, tmp_path: Path, protocol: str
) -> None:
    """Also if one dies while it writes texts, and one while it measures."""
    ray.deaths = {"write": {0}, "measure": {1}}
    settings = (f"protocol={protocol}", "sampling=standard", "reports=[]", "batch=2",
                "drafters=[none,bigram]", "max_new_tokens=4")  # fmt: skip
    compared(*settings, out="one")
    compared(*settings, "workers=2", out="many")
    one, many = load(tmp_path / "one"), load(tmp_path / "many")
    assert many.finished
    assert measured(many) == measured(one)
    assert ray.hired == 4
    assert not ray.is_connected


def test_the_documented_comparison_resumes(compared: Any, ray: StubRay, tmp_path: Path) -> None:
    words = DOCUMENTED.split()[2:]
    compared(*words, "reports=[]")
    lines = tmp_path / "out" / "measurements.jsonl"
    whole, text = load(lines.parent), lines.read_text().splitlines(keepends=True)
    lines.write_text("".join(text[:5]))
    before = ray.made["measure"]
    compared(*words, "reports=[]", "resume=true")
    assert measured(load(lines.parent)) == measured(whole)
    assert ray.made["measure"] < 2 * before


def test_a_drafter_that_fails_leaves_the_others(
    compared: Any, ray: StubRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = PromptLookup.propose

    def fails(self: PromptLookup, context: Context, pen: Pen) -> None:
        if len(context.tokens) > 12:
            raise ZeroDivisionError("by accident")
        inner(self, context, pen)

    words = ("workers=2", "drafters=[none,bigram,prompt_lookup]", "reports=[]", "turns=1")
    with monkeypatch.context() as patch:
        patch.setattr(PromptLookup, "propose", fails)
        printed, report = compared(*words, status=1)
    assert "outrider: drafter PromptLookup raised ZeroDivisionError: by accident" in printed
    assert [row["drafter"] for row in report["rows"]] == ["none", "bigram"]
    _, again = compared(*words, "resume=true")
    assert again["finished"]
    for own, before in zip(again["rows"], report["rows"], strict=False):
        assert own | {"doubts": before["doubts"]} == before  # the load is another


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (["policy=bandit"], "workers=2: expected null with none: its policy learns from rounds"),
        (["cluster.gpus=1"], "workers=2: expected at most 0, the cluster has 0 GPUs"),
    ],
)
def test_a_refusal_of_workers_is_one_line(
    compared: Any, ray: StubRay, settings: list[str], line: str
) -> None:
    printed, _ = compared("workers=2", *settings, status=1)
    assert printed.splitlines()[-1].startswith(f"outrider: {line}"), printed


def test_workers_with_other_weights_are_refused(
    compared: Any, ray: StubRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprints = iter("abcd")
    place = "outrider.targets.transformers.TransformersTarget.fingerprint"
    monkeypatch.setattr(place, lambda self: next(fingerprints))
    monkeypatch.setattr(
        "outrider.extras.ray.cluster.Team.start", lambda self: [self._next(), self._next()]
    )
    printed, _ = compared("workers=2", "protocol=decode", status=1)
    assert "outrider: workers: identity.target.fingerprint is 'b' on" in printed


def test_a_missing_ray_is_one_line_with_the_installation(
    compared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    printed, _ = compared("workers=2", status=1)
    assert printed.splitlines()[-1] == "outrider: workers needs ray: pip install 'outrider[ray]'"


@pytest.mark.parametrize("address", [None, "auto"])
def test_a_local_ray_is_closed_to_others(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in private_settings():
        monkeypatch.setenv(name, "")
    seen: dict[str, str] = {}
    ray = SimpleNamespace(init=lambda **_: seen.update(os.environ))
    monkeypatch.setitem(sys.modules, "ray", ray)
    connected(address, None)
    token = seen["RAY_AUTH_TOKEN"]
    if address is None:
        # Then Ray takes the loopback address for its node.
        assert seen["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
        assert seen["RAY_AUTH_MODE"] == "token" and len(token) == 64
        assert private_settings()["RAY_AUTH_TOKEN"] != token
    else:  # the cluster has settings of its own
        assert token == ""
