"""Runs are named by what differs between them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider.lab.runs.labels import labels
from outrider.lab.runs.run import Run


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        (
            {"target": {"_target_": "a.b.smollm2", "dtype": "auto"}},
            {"target": {"_target_": "a.b.Model", "model": "Qwen/Q2", "dtype": "auto"}},
            ["target smollm2", "target Qwen/Q2"],
        ),
        (
            {"policy": {"_target_": "a.Fixed"}},
            {"policy": {"_target_": "a.Entropy", "scale": 0.2}},
            ["policy Fixed", "policy Entropy"],
        ),
        ({"sampling": {"top_k": 3}}, {"sampling": {}}, ["top_k 3", "top_k None"]),
    ],
)
def test_labels_are_readable(
    whole_run: Run, one: dict[str, Any], other: dict[str, Any], names: list[str]
) -> None:
    runs = [replace(whole_run, facts={"settings": {"gamma": 2, **own}}) for own in (one, other)]
    assert labels(runs) == names


def test_runs_are_labelled_by_their_differing_settings(
    run_in: Callable[..., Any], tmp_path: Path
) -> None:
    runs = [run_in(tmp_path / str(gamma), gamma=gamma, protocol="overlap").run for gamma in (2, 4)]
    assert labels(runs[:1]) == [""]
    assert labels(runs) == ["gamma 2", "gamma 4"]
    twin = replace(runs[0], folder=tmp_path / "other" / "2")
    assert labels([runs[0], twin]) == [str(runs[0].folder), str(twin.folder)]
    names = [f"gamma 2, {runs[0].folder}", "gamma 4", f"gamma 2, {twin.folder}"]
    assert labels([*runs, twin]) == names
    edited = [
        replace(runs[0], facts={**runs[0].facts, "identity": {"echo": {"source": source}}})
        for source in ("1a", "2b")
    ]
    assert labels(edited) == ["source 1a", "source 2b"]
