"""`outrider compare`: drafters side by side over the same prompts."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from outrider.base.bounds import OneOf, check
from outrider.base.errors import ConfigError, require
from outrider.base.interruption import advising
from outrider.base.terminal import plain, print_json, remarks, results, visible
from outrider.cli.reports import chosen_reports
from outrider.cli.resume_hint import advice, say_what_is_unfinished
from outrider.cli.screen import Screen
from outrider.cli.settings import Compare
from outrider.cli.variants import build_variants, run_facts, variant_configs
from outrider.contract.target import Target
from outrider.data.prompts import Prompt
from outrider.lab.measuring.compare import PROTOCOLS, fit, measure, questions
from outrider.lab.measuring.quality import SCORES, read_quality
from outrider.lab.measuring.sandbox import isolation
from outrider.lab.measuring.texts import cache_folder
from outrider.lab.measuring.variants import Question, Settings
from outrider.lab.runs.conclusion import finding_of
from outrider.lab.runs.export import comparison, write_json
from outrider.lab.runs.files import FACTS
from outrider.lab.runs.identity import load
from outrider.lab.runs.planning import plan_lines
from outrider.lab.runs.speculation_profile import write_profiles
from outrider.lab.runs.store import RunFolder, unfinished
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
from outrider.lab.statistics.pairs import comparable, is_control
from outrider.plugins.config import build

BY_TASK = ("speedup", "block_efficiency", "tokens_per_second", *SCORES)
"""The rates that are printed by task, in this order."""


def compare(settings: Compare) -> float | None:
    """Prints the table; measurements and the report are saved in Hydra's run dir.

    Returns the rate in `objective`, that of the best drafter, for a sweeper to make larger.
    """
    rate = Annotated[str, OneOf(COLUMNS)] | None
    rates = {"sort": settings.sort, "objective": settings.objective}
    check(dict.fromkeys(rates, rate), rates)
    # Hydra would print the log of all libraries, and matplotlib logs where it finds its fonts.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    configs = variant_configs(settings)
    if not settings.resume:
        say_what_is_unfinished(remarks())
    prompts = [
        replace(prompt, turns=prompt.turns[: settings.turns])
        for prompt in _of_shard(build(settings.data), settings.shard)
    ]
    quality = _read_quality(settings, prompts)
    target = build(settings.target)
    writing = Settings(
        gamma=settings.gamma,
        budget=settings.budget,
        sampling=build(settings.sampling),
        max_new_tokens=settings.max_new_tokens,
        batch=settings.batch,
        together=settings.together,
        repeats=settings.repeats,
        draft_timeout=settings.draft_timeout,
        quality=quality,
    )
    variants = build_variants(configs)
    fit(target, variants)
    facts = run_facts(settings, configs, variants, target, prompts)
    reports = chosen_reports(settings.reports)
    _say_what_is_out_of_reach(facts)
    with (
        RunFolder(_run_path(settings.resume), facts, resume=settings.resume) as run_folder,
        advising(lambda: advice(run_folder)),
        Screen(live=settings.live and settings.together == 1) as screen,
    ):
        _check_memory(facts, run_folder)
        all_questions = _questions(settings, target, prompts, writing, screen=screen)
        tokens = json.dumps([question.tokens for question in all_questions])
        run_folder.confirm("questions_sha256", hashlib.sha256(tokens.encode()).hexdigest())
        task = screen.add_task(
            "measuring",
            total=len(all_questions) * len(variants) * len(PROTOCOLS[settings.protocol]),
            completed=len(run_folder.measurements),
        )
        reports.begin(run_folder.run)
        done = {(m.protocol, m.prompt, m.turn) for m in run_folder.measurements}
        try:
            for measurement in measure(
                target,
                variants,
                all_questions,
                writing,
                protocol=settings.protocol,
                done=done,
                watch=screen.watch if screen.live_texts else None,
            ):
                run_folder.add(measurement)
                reports.add(measurement)
                step = f"{measurement.protocol}, prompt {measurement.prompt}, {measurement.drafter}"
                screen.update(task, advance=1, description=visible(step), refresh=True)
        finally:  # an interrupted run leaves the figures of what it finished
            run_folder.end(load())
            summary = Summary(run_folder.run)
            write_json(summary, run_folder.path)
            write_profiles(summary, run_folder.path)
    with advising(lambda: advice(run_folder)):
        written = reports.end({"": summary}, run_folder.path)
    title = (
        f"{len(summary.prompts)} prompts, {settings.max_new_tokens} tokens each,"
        f" gamma {settings.gamma}, temperature {writing.sampling.temperature:g}"
    )
    _print(summary, title, settings)
    for path in (run_folder.path / "comparison.json", *written):
        line = path.absolute().as_uri() if path.suffix == ".html" else path
        remarks(stderr=False).print(plain(line), soft_wrap=True)
    return None if settings.objective is None else _best(summary, settings.objective)


def _say_what_is_out_of_reach(facts: Mapping[str, Any]) -> None:
    """Prints that the prompts are too few for the drafters to be told apart, if they are."""
    parts, reference = facts["drafters"], facts["reference"]
    tests = len(comparable(list(parts), parts, reference))
    for note in out_of_reach(len({prompt for prompt, *_ in facts["questions"]}), tests):
        hint = ", or fewer with reference=DRAFTER" if tests > 2 and reference is None else ""
        remarks().print(plain(note + hint), soft_wrap=True)


def _best(summary: Summary, rate: str) -> float:
    """Returns a rate of the drafter that is best at it; plain decoding counts only if it is alone.

    Raises:
        ConfigError: no drafter has this rate.
    """
    configs = summary.run.facts["drafters"]
    drafted = [row for row in summary.rows if not is_control(row.drafter, configs[row.drafter])]
    rates = [row.rates[rate] for row in drafted or summary.rows]
    known = [interval.value for interval in rates if interval is not None]
    require(bool(known), "objective", rate, "a rate that this run measures")
    return max(known)


def _check_memory(facts: Mapping[str, Any], run_folder: RunFolder) -> None:
    """Raises `ConfigError` if a run can't continue, since what its drafters remembered is lost."""
    if run_folder.measurements and not run_folder.run.finished and "remember" in facts:
        names = ", ".join(facts["remember"])
        raise ConfigError(f"resume=true: expected false, {names} would continue without a memory")


def _read_quality(settings: Compare, prompts: Sequence[Prompt]) -> tuple[str, ...]:
    """Returns the scores to compute; prints what protects the machine if they run code."""
    names = read_quality(settings.quality, prompts)
    decodes = "decode" in PROTOCOLS[settings.protocol]
    require(decodes or not names, "quality", list(names), "null with protocol=overlap")
    if "pass1" in names:
        line = f"pass1 runs the code that the target writes, with limits: {isolation()}"
        remarks().print(plain(line), soft_wrap=True)
    return names


def _of_shard(prompts: Sequence[Prompt], shard: str | None) -> Sequence[Prompt]:
    """Returns every n-th prompt from the k-th on for the shard "k/n", or all for None."""
    if shard is None:
        return prompts
    number, _, count = shard.partition("/")
    valid = number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)
    require(valid, "shard", shard, 'a part of the prompts such as "2/8", or none')
    return prompts[int(number) - 1 :: int(count)]


def _questions(
    settings: Compare,
    target: Target,
    prompts: Sequence[Prompt],
    writing: Settings,
    *,
    screen: Screen,
) -> list[Question]:
    answers = "overlap" in PROTOCOLS[settings.protocol]
    total = sum(len(prompt.turns) - (not answers) for prompt in prompts)
    task = screen.add_task("the target writes", total=total, visible=total > 0)
    return questions(
        target,
        prompts,
        writing,
        chat=settings.chat,
        answers=answers,
        folder=cache_folder() if settings.cache else None,
        on_text=lambda: screen.update(task, advance=1, refresh=True),
    )


def _run_path(resume: bool) -> Path:
    """Returns the folder of the run: Hydra's, or that of the unfinished run to resume.

    A job of a sweep always has its own folder, and resumes the run there.
    """
    output = Path(HydraConfig.get().runtime.output_dir)
    is_sweep = HydraConfig.get().mode == RunMode.MULTIRUN
    if not resume or is_sweep or (output / FACTS).is_file():
        return output
    path = unfinished(output.parent)
    require(path is not None, "resume", True, f"an unfinished run in {output.parent}")
    assert path is not None
    return path


def _print(summary: Summary, title: str, settings: Compare) -> None:
    print_json(comparison(summary))
    console = results()
    rows = summary.rows if settings.sort is None else by_rate(summary.rows, settings.sort)
    console.print(table({"": rows}, title))
    if sentences := finding_of(summary):
        console.print(" ".join(sentences), markup=False, highlight=False)
    if settings.pairs and summary.pairs and summary.prompts[1:]:
        remarks(stderr=False).print(pair_table(summary.pairs))
    if settings.by_task and any(row.tasks for row in summary.rows):
        shown = columns_of(summary.rows)
        for rate in (rate for rate in BY_TASK if rate in shown):
            console.print(task_table(summary.rows, rate))
    for line in [] if settings.precision is None else plan_lines(summary, settings.precision):
        console.print(plain(line), soft_wrap=True)
