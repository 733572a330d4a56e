"""Every job of a built-in experiment can run, and `outrider report` gathers a sweep."""

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from outrider import ConfigError
from outrider.cli.reports import chosen_reports
from outrider.cli.sweep import check_jobs
from outrider.lab.tables.layouts import LAYOUTS
from outrider.plugins.config import build, compose
from outrider.plugins.options import offer_options
from outrider.plugins.registry import command_entry

EXPERIMENTS = Path(__file__).parents[3] / "conf" / "experiment"
JOBS = {"table3": 2, "lenience": 8, "chen": 14, "chen_table1": 2, "scaled_uniform": 5}
OTHERS = {"spec_bench", "dspark_table1", "table2"}
"""Those of a single run; a page of the docs runs the last."""

DRAFTERS = "drafters=[bigram,prompt_lookup]"


def shared(quick: list[str], *left_out: str) -> list[str]:
    """Returns the settings of the quick run that an experiment does not set itself."""
    return [word for word in quick if not word.startswith(("drafters=", *left_out))]


def test_every_experiment_is_tested() -> None:
    assert {path.stem for path in EXPERIMENTS.glob("*.yaml")} == JOBS.keys() | OTHERS


@pytest.mark.parametrize("name", sorted(JOBS))
def test_every_job_of_an_experiment_can_run(quick: list[str], name: str, tmp_path: Path) -> None:
    own = OmegaConf.load(EXPERIMENTS / f"{name}.yaml").hydra
    assert prod(str(values).count(",") + 1 for values in own.sweeper.params.values()) == JOBS[name]
    layouts = [it.layout for it in own.get("callbacks", {}).values()]
    assert {*layouts} <= LAYOUTS.keys() | chosen_reports().layouts.keys()
    offer_options()
    words = [f"+experiment={name}", *shared(quick, "gamma="), DRAFTERS]
    check_jobs(command_entry("compare").source, [*words, f"hydra.sweep.dir={tmp_path / 'sweep'}"])


def test_a_sweep_prints_its_layout_and_is_gathered(run: Any, quick: list[str]) -> None:
    words = (*shared(quick, "gamma="), DRAFTERS, "data.limit=2", "max_new_tokens=4", "reports=[]")
    printed = run.done("compare", "+experiment=table3", *words, "hydra.sweep.dir=sweep")
    for word in ("alpha", "temperature", "0", "1"):
        assert word in printed
    run.done("report", "sweep")
    rows = json.loads(Path("sweep/report.json").read_text())["rows"]
    assert len({(row["label"], row["drafter"]) for row in rows}) == len(rows) == 2 * 2


def test_spec_bench_prints_the_leaderboards_table(
    run: Any, quick: list[str], tmp_path: Path
) -> None:
    questions = tmp_path / "question.jsonl"
    categories = ["writing", "stem", "translation", "qa", "rag", "summarization"]
    questions.write_text(
        "".join(
            json.dumps({"question_id": number, "category": name, "turns": ["the cat sat"]}) + "\n"
            for number, name in enumerate(categories)
        )
    )
    words = (*shared(quick, "data"), f"data.path={questions}", "drafters=[none,bigram]")
    printed = run.done(
        "compare", "+experiment=spec_bench", *words, "repeats=2", "hydra.run.dir=out"
    )
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

    offer_options()
    words = ["hydra/launcher=outrider_slurm", "hydra.launcher.partition=night"]
    with initialize_config_module("outrider.conf", version_base="1.3"):
        launcher = compose("compare", words, return_hydra_config=True).hydra.launcher
    assert (launcher.partition, launcher.timeout_min) == ("night", 240)
    assert launcher.array_parallelism == 8
    assert type(instantiate(launcher)).__name__ == "SlurmLauncher"
