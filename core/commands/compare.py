"""`outrider compare`: drafters side by side over the same prompts."""

import hashlib
import itertools
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from outrider.contract.target import Target
from outrider.errors import nearest, require
from outrider.lab.compare import PROTOCOLS, fit, measure, questions
from outrider.lab.export import write_json, write_parquet
from outrider.lab.report import report
from outrider.lab.store import FACTS, RunFolder, unfinished
from outrider.lab.summary import Summary
from outrider.lab.table import pair_table, table
from outrider.lab.texts import cache_folder
from outrider.lab.trial import Entrant, Question, Settings
from outrider.plugins.config import build, named, plain
from outrider.plugins.registry import plural
from outrider.prompts import Prompt

Parts = tuple[DictConfig, DictConfig, DictConfig]
"""The configs of a drafter, a rule and a policy."""


def compare(config: DictConfig) -> None:
    """Prints the table; the run's folder holds each measurement, and in the end the report."""
    expected = nearest(str(config.protocol), PROTOCOLS)
    require(config.protocol in PROTOCOLS, "protocol", config.protocol, f"another: {expected}")
    # Hydra logs what libraries have to say, and this one says where its fonts are.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    nodes = _entrants(config)
    target = build(config.target)
    settings = Settings(
        config.gamma,
        config.budget,
        build(config.sampling),
        config.max_new_tokens,
        config.batch,
        config.together,
    )
    prompts = _turns(build(config.data), config.turns)
    # One drafter for all of its rules and policies: it may be a model.
    drafters = {id(node): build(node) for node, _, _ in nodes.values()}
    entrants = {
        name: Entrant(drafters[id(drafter)], build(verifier), build(policy))
        for name, (drafter, verifier, policy) in nodes.items()
    }
    fit(target, entrants)
    shown = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=shown) as progress:
        asked = _asked(progress, target, prompts, settings, config)
        facts = _facts(config, nodes, entrants, asked, prompts)
        folder = RunFolder(_place(config), facts, resume=config.resume)
        try:
            _measured(progress, folder, target, entrants, asked, settings, config.protocol)
        finally:
            summary = Summary(folder.run)
            write_json(summary, folder.folder)
    write_parquet(folder.run, folder.folder)
    page = report({"": summary}, folder.folder)
    console = Console()
    title = (
        f"{len(summary.prompts)} prompts, {config.max_new_tokens} tokens each,"
        f" gamma {config.gamma}, temperature {settings.sampling.temperature:g}"
    )
    console.print(table({"": summary.rows}, title))
    if summary.pairs and summary.prompts[1:]:
        console.print(pair_table(summary.pairs))
    for place in (folder.folder / "comparison.json", page):
        console.print(str(place), soft_wrap=True)


def _entrants(config: DictConfig) -> dict[str, Parts]:
    """Returns the configs of drafter, rule and policy of each entrant: every one with every one.

    Where there are several rules or policies, their names are part of the entrant's.
    """
    drafters = named("drafter", plain(config.drafters))
    verifiers, policies = (
        {"": config[role]}
        if config[f"{plural(role)}"] is None
        else named(role, plain(config[f"{plural(role)}"]))
        for role in ("verifier", "policy")
    )
    return {
        "/".join(filter(None, names)): (
            drafters[names[0]],
            verifiers[names[1]],
            policies[names[2]],
        )
        for names in itertools.product(drafters, verifiers, policies)
    }


def _turns(prompts: Sequence[Prompt], turns: int | None) -> list[Prompt]:
    """Returns the prompts with their first `turns` turns."""
    require(turns is None or turns >= 1, "turns", turns, "a whole number of at least 1, or none")
    return [Prompt(prompt.id, prompt.category, prompt.turns[:turns]) for prompt in prompts]


def _asked(
    progress: Progress,
    target: Target,
    prompts: Sequence[Prompt],
    settings: Settings,
    config: DictConfig,
) -> list[Question]:
    answers = "overlap" in PROTOCOLS[config.protocol]
    total = sum(len(prompt.turns) - (not answers) for prompt in prompts)
    work = progress.add_task("the target writes", total=total, visible=total > 0)
    return questions(
        target,
        prompts,
        settings,
        chat=config.chat,
        answers=answers,
        folder=cache_folder() if config.cache else None,
        on_text=lambda: progress.advance(work),
    )


def _measured(
    progress: Progress,
    folder: RunFolder,
    target: Target,
    entrants: Mapping[str, Entrant],
    asked: Sequence[Question],
    settings: Settings,
    protocol: str,
) -> None:
    total = len(asked) * len(entrants) * len(PROTOCOLS[protocol])
    work = progress.add_task("measuring", total=total, completed=len(folder.measurements))
    done = {(each.protocol, each.prompt, each.turn) for each in folder.measurements}
    for each in measure(target, entrants, asked, settings, protocol, done):
        folder.add(each)
        said = f"{each.protocol}, prompt {each.prompt}, {each.drafter}"
        progress.update(work, advance=1, description=said)


def _place(config: DictConfig) -> Path:
    """Returns the folder of the run: Hydra's, or that of the run to be resumed.

    A job of a sweep has a folder of its own, and goes on with what it finds there.
    """
    fresh = Path(HydraConfig.get().runtime.output_dir)
    swept = HydraConfig.get().mode == RunMode.MULTIRUN
    if not config.resume or swept or (fresh / FACTS).is_file():
        return fresh
    found = unfinished(fresh.parent)
    require(found is not None, "resume", True, f"a run in {fresh.parent} that broke off")
    assert found is not None
    return found


def _facts(
    config: DictConfig,
    nodes: Mapping[str, Parts],
    entrants: Mapping[str, Entrant],
    asked: Sequence[Question],
    prompts: Sequence[Prompt],
) -> dict[str, Any]:
    """Returns what the run is, and what one that continues it has to agree with."""
    lists = ("resume", "drafters", "verifiers", "policies")
    settings = {key: value for key, value in plain(config).items() if key not in lists}
    turns = {prompt.id: prompt.turns for prompt in prompts}
    digest = hashlib.sha256(json.dumps([each.tokens for each in asked]).encode()).hexdigest()
    return {
        "settings": settings,
        "drafters": {
            name: dict(zip(Entrant.__slots__, map(plain, parts), strict=True))
            for name, parts in nodes.items()
        },
        "protocols": list(PROTOCOLS[config.protocol]),
        "lossless": {name: each.verifier.lossless for name, each in entrants.items()},
        "questions": [
            [each.prompt, each.turn, turns[each.prompt][each.turn - 1][:300]] for each in asked
        ],
        "questions_sha256": digest,
    }
