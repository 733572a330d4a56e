"""`outrider compare`: drafters side by side over the same prompts."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from outrider.base.errors import ConfigError, nearest, require
from outrider.base.interruption import advising
from outrider.base.terminal import plain, print_json, remarks, results, visible
from outrider.cli.entrants import build_entrants, entrant_configs, run_facts
from outrider.cli.reports import chosen_reports
from outrider.cli.resume_hint import advice, say_what_is_unfinished
from outrider.cli.screen import Screen
from outrider.contract.target import Target
from outrider.data.prompts import Prompt
from outrider.lab.measuring.compare import PROTOCOLS, fit, measure, questions
from outrider.lab.measuring.entrants import Question, Settings
from outrider.lab.measuring.quality import SCORES, read_quality
from outrider.lab.measuring.sandbox import isolation
from outrider.lab.measuring.texts import cache_folder
from outrider.lab.runs.conclusion import finding_of
from outrider.lab.runs.export import comparison, write_json
from outrider.lab.runs.planning import plan_lines
from outrider.lab.runs.store import FACTS, RunFolder, unfinished
from outrider.lab.runs.summary import Summary
from outrider.lab.runs.table import (
    COLUMNS,
    by_rate,
    columns_of,
    out_of_reach,
    pair_table,
    table,
    task_table,
)
from outrider.lab.statistics.pairs import comparable
from outrider.plugins.config import build, plain_values

BY_TASK = ("speedup", "block_efficiency", "tokens_per_second", *SCORES)
"""The rates that are printed by task, in this order."""


def compare(config: DictConfig) -> None:
    """Prints the table; measurements and the report are saved in Hydra's run dir."""
    _check_protocol(config.protocol)
    _check_sort(config.sort)
    # Hydra would print the log of all libraries, and matplotlib logs where it finds its fonts.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    configs = entrant_configs(config)
    say_what_is_unfinished(config, remarks())
    prompts = _with_turns(build(config.data), config.turns)
    quality = _read_quality(config, prompts)
    target = build(config.target)
    settings = Settings(
        gamma=config.gamma,
        budget=config.budget,
        sampling=build(config.sampling),
        max_new_tokens=config.max_new_tokens,
        batch=config.batch,
        together=config.together,
        repeats=config.repeats,
        draft_timeout=config.draft_timeout,
        quality=quality,
    )
    entrants = build_entrants(configs)
    fit(target, entrants)
    facts = run_facts(config, configs, entrants, target, prompts)
    reports = chosen_reports(plain_values(config.reports))
    _say_what_is_out_of_reach(facts)
    with (
        RunFolder(_run_path(config), facts, resume=config.resume) as run_folder,
        advising(lambda: advice(run_folder)),
        Screen(live=config.live and config.together == 1) as screen,
    ):
        _check_memory(facts, run_folder)
        all_questions = _questions(config, target, prompts, settings, screen=screen)
        tokens = json.dumps([question.tokens for question in all_questions])
        run_folder.confirm("questions_sha256", hashlib.sha256(tokens.encode()).hexdigest())
        task = screen.add_task(
            "measuring",
            total=len(all_questions) * len(entrants) * len(PROTOCOLS[config.protocol]),
            completed=len(run_folder.measurements),
        )
        reports.begin(run_folder.run)
        done = {(m.protocol, m.prompt, m.turn) for m in run_folder.measurements}
        try:
            for measurement in measure(
                target,
                entrants,
                all_questions,
                settings,
                protocol=config.protocol,
                done=done,
                watch=screen.watch if screen.live_texts else None,
            ):
                run_folder.add(measurement)
                reports.add(measurement)
                step = f"{measurement.protocol}, prompt {measurement.prompt}, {measurement.drafter}"
                screen.update(task, advance=1, description=visible(step), refresh=True)
        finally:  # an interrupted run leaves the figures of what it finished
            summary = Summary(run_folder.run)
            write_json(summary, run_folder.path)
    written = reports.end({"": summary}, run_folder.path)
    title = (
        f"{len(summary.prompts)} prompts, {config.max_new_tokens} tokens each,"
        f" gamma {config.gamma}, temperature {settings.sampling.temperature:g}"
    )
    _print(summary, title, config)
    for path in (run_folder.path / "comparison.json", *written):
        line = path.absolute().as_uri() if path.suffix == ".html" else path
        remarks(stderr=False).print(plain(line), soft_wrap=True)


def _say_what_is_out_of_reach(facts: Mapping[str, Any]) -> None:
    """Prints that the prompts are too few for the drafters to be told apart, if they are."""
    parts, reference = facts["drafters"], facts["reference"]
    tests = len(comparable(list(parts), parts, reference))
    for note in out_of_reach(len({prompt for prompt, *_ in facts["questions"]}), tests):
        hint = ", or fewer with reference=DRAFTER" if tests > 2 and reference is None else ""
        remarks().print(plain(note + hint), soft_wrap=True)


def _check_protocol(protocol: str) -> None:
    expected = nearest(str(protocol), PROTOCOLS)
    require(protocol in PROTOCOLS, "protocol", protocol, f"a protocol; {expected}")


def _check_sort(rate: str | None) -> None:
    expected = nearest(str(rate), COLUMNS)
    require(rate is None or rate in COLUMNS, "sort", rate, f"a rate: {expected}")


def _check_memory(facts: Mapping[str, Any], run_folder: RunFolder) -> None:
    """Raises `ConfigError` if a run can't continue, since what its drafters remembered is lost."""
    if run_folder.measurements and not run_folder.run.finished and "remember" in facts:
        names = ", ".join(facts["remember"])
        raise ConfigError(f"resume=true: expected false, {names} would continue without a memory")


def _read_quality(config: DictConfig, prompts: Sequence[Prompt]) -> tuple[str, ...]:
    """Returns the scores to compute; prints what protects the machine if they run code."""
    names = read_quality(plain_values(config.quality), prompts)
    decodes = "decode" in PROTOCOLS[config.protocol]
    require(decodes or not names, "quality", list(names), "null with protocol=overlap")
    if "pass1" in names:
        line = f"pass1 runs the code that the target writes, with limits: {isolation()}"
        remarks().print(plain(line), soft_wrap=True)
    return names


def _with_turns(prompts: Sequence[Prompt], turns: int | None) -> list[Prompt]:
    """Returns the prompts with their first `turns` turns, or all of them if it is None."""
    require(turns is None or turns >= 1, "turns", turns, "a whole number of at least 1, or none")
    return [replace(prompt, turns=prompt.turns[:turns]) for prompt in prompts]


def _questions(
    config: DictConfig,
    target: Target,
    prompts: Sequence[Prompt],
    settings: Settings,
    *,
    screen: Screen,
) -> list[Question]:
    answers = "overlap" in PROTOCOLS[config.protocol]
    total = sum(len(prompt.turns) - (not answers) for prompt in prompts)
    task = screen.add_task("the target writes", total=total, visible=total > 0)
    return questions(
        target,
        prompts,
        settings,
        chat=config.chat,
        answers=answers,
        folder=cache_folder() if config.cache else None,
        on_text=lambda: screen.update(task, advance=1, refresh=True),
    )


def _run_path(config: DictConfig) -> Path:
    """Returns the folder of the run: Hydra's, or that of the unfinished run to resume.

    A job of a sweep always has its own folder, and resumes the run there.
    """
    output = Path(HydraConfig.get().runtime.output_dir)
    is_sweep = HydraConfig.get().mode == RunMode.MULTIRUN
    if not config.resume or is_sweep or (output / FACTS).is_file():
        return output
    path = unfinished(output.parent)
    require(path is not None, "resume", True, f"an unfinished run in {output.parent}")
    assert path is not None
    return path


def _print(summary: Summary, title: str, config: DictConfig) -> None:
    print_json(comparison(summary))
    console = results()
    rows = summary.rows if config.sort is None else by_rate(summary.rows, config.sort)
    console.print(table({"": rows}, title))
    if sentences := finding_of(summary):
        console.print(" ".join(sentences), markup=False, highlight=False)
    if config.pairs and summary.pairs and summary.prompts[1:]:
        remarks(stderr=False).print(pair_table(summary.pairs))
    if config.by_task and any(row.tasks for row in summary.rows):
        shown = columns_of(summary.rows)
        for rate in (rate for rate in BY_TASK if rate in shown):
            console.print(task_table(summary.rows, rate))
    for line in [] if config.precision is None else plan_lines(summary, config.precision):
        console.print(plain(line), soft_wrap=True)
