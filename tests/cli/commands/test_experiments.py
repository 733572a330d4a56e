"""Every built-in experiment runs as a sweep, and `outrider report` gathers it."""

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hydra.plugins.sweeper import Sweeper
from omegaconf import OmegaConf

from outrider import ConfigError
from outrider.extras.view import figures
from outrider.plugins.config import build, compose

EXPERIMENTS = Path(__file__).parents[3] / "conf" / "experiment"
JOBS = {"table3": 2, "lenience": 8, "chen": 14, "chen_table1": 2, "scaled_uniform": 5}

LAYOUTS = {
    "table3": ("alpha", "temperature", "0", "1"),
    "lenience": ("alpha of rule", "lenience", "0.5", "bigram, temperature 1"),
    "chen": ("chen_figure1.png",),
    "chen_table1": ("sampling method", "SpS (nucleus 0.8), bigram", "rouge2", "ms/token"),
}
"""By experiment, what the paper's table or figure prints."""
SHORT = {
    "chen": "sampling: chen_xsum, gamma: '1,7'",
    "lenience": "verifier.lenience: 0.5, sampling.temperature: '0,1'",
    "scaled_uniform": "verifier.b: '0.5,2'",
}
"""By experiment, two of its jobs."""


@pytest.fixture(autouse=True)
def composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hydra composes all jobs before the first one runs, and then each again; here it does not."""
    monkeypatch.setattr(Sweeper, "validate_batch_is_legal", lambda *_: None)


@pytest.fixture(autouse=True)
def drawn_of_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of a sweep has the figures of its first run: none of these tests is about them."""
    inner = figures.drawn

    def drawn(plot: Any, rows: Any, height: float) -> Any:
        return inner(plot, dict([*rows.items()][:1]), height)

    monkeypatch.setattr(figures, "drawn", drawn)


def test_every_experiment_is_tested() -> None:
    assert {path.stem for path in EXPERIMENTS.glob("*.yaml")} == {
        *JOBS,
        "spec_bench",
        "dspark_table1",
        "table2",  # which a page of the docs runs
    }


def swept(name: str, drafters: list[str], run: Any, quick: list[str], *more: str) -> Path:
    """Runs an experiment and its report; returns the folder."""
    # The settings of the quick run that the experiment does not set itself.
    shared = [word for word in quick if not word.startswith(("gamma=", "drafters="))]
    shared.append("reports=[]")  # of a single run: tests/cli/commands/test_compare.py
    printed = run.done(
        "compare", f"+experiment={name}", *shared, f"drafters=[{','.join(drafters)}]", *more,
        "hydra.sweep.dir=sweep",
    )  # fmt: skip
    sweep = Path("sweep").resolve()
    assert len(list(sweep.glob("*/comparison.json"))) == 2
    for words in LAYOUTS.get(name, ()):
        assert words in printed
    run.done("report", "sweep")
    rows = json.loads((sweep / "report.json").read_text())["rows"]
    assert len(rows) == 2 * len(drafters)
    assert len({(row["label"], row["drafter"]) for row in rows}) == len(rows)
    return sweep


@pytest.mark.parametrize("name", sorted(JOBS))
def test_an_experiment_runs(run: Any, quick: list[str], name: str) -> None:
    short = ["data.limit=2", "max_new_tokens=4", "batch=4"]
    params = OmegaConf.load(EXPERIMENTS / f"{name}.yaml").hydra.sweeper.params
    assert prod(str(values).count(",") + 1 for values in params.values()) == JOBS[name]
    if name in SHORT:
        short.append(f"hydra.sweeper.params={{{SHORT[name]}}}")
    swept(name, ["bigram", "prompt_lookup"], run, quick, *short)


def test_spec_bench_prints_the_leaderboards_table(
    run: Any, quick: list[str], tmp_path: Path
) -> None:
    shared = [word for word in quick if not word.startswith(("drafters=", "data"))]
    questions = tmp_path / "question.jsonl"
    categories = ["writing", "stem", "translation", "qa", "rag", "summarization"]
    questions.write_text(
        "".join(
            json.dumps({"question_id": number, "category": name, "turns": ["the cat sat"]}) + "\n"
            for number, name in enumerate(categories)
        )
    )
    printed = run.done(
        "compare", "+experiment=spec_bench", *shared, f"data.path={questions}",
        "drafters=[none,bigram]", "repeats=2",
        f"hydra.run.dir={tmp_path / 'out'}",
    )  # fmt: skip
    assert "speedup by task" in printed
    for task in ("bench", "translation", "qa", "rag", "summarization", "overall"):
        assert task in printed
    report = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert set(report["rows"][1]["tasks"]) == {
        "mt_bench", "translation", "qa", "rag", "summarization",
    }  # fmt: skip
    assert report["settings"]["repeats"] == 2
    assert "by_task" not in report["settings"]


def test_dsparks_table_names_the_folders_that_it_needs(run: Any) -> None:
    asked = ["compare", "+experiment=dspark_table1"]
    line = "drafter.path='deepspec/eagle3_qwen3_4b_ttt7': expected a folder that exists"
    assert line in run.refused(*asked)
    config = compose("compare", asked[1:])
    assert (config.sampling.temperature, config.gamma) == (1, 7)
    with pytest.raises(ConfigError, match=r"deepspec/eval_datasets': expected a folder with gsm8k"):
        build(config.data)


def test_the_slurm_launcher_composes() -> None:
    """Without a cluster: the config is complete and makes the launcher."""
    from hydra import compose, initialize_config_module
    from hydra.utils import instantiate

    from outrider.plugins.options import offer_options

    offer_options()
    with initialize_config_module("outrider.conf", version_base="1.3"):
        config = compose(
            "compare",
            ["hydra/launcher=outrider_slurm", "hydra.launcher.partition=night"],
            return_hydra_config=True,
        )
    launcher = config.hydra.launcher
    assert (launcher.partition, launcher.timeout_min, launcher.array_parallelism) == (
        "night",
        240,
        8,
    )
    assert type(instantiate(launcher)).__name__ == "SlurmLauncher"
