"""`outrider advise`: measures on half of the prompts, advises, and decodes the other half so."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated

from hydra.core.hydra_config import HydraConfig
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from outrider.base.bounds import Seconds, values_of
from outrider.base.contents import json_in
from outrider.base.errors import ConfigError, require
from outrider.base.expectations import AtLeast
from outrider.base.folders import write_whole
from outrider.base.terminal import plain, print_json, remarks, visible
from outrider.contract.target import Target
from outrider.extras.advise.advice import advice_of
from outrider.extras.advise.candidates import candidates
from outrider.extras.advise.costs import round_seconds
from outrider.extras.advise.engines import lines
from outrider.extras.advise.forecast import Clock, Setting, as_measured, by_length, decodings
from outrider.extras.advise.groups import groups_of
from outrider.extras.advise.measure import Trial, has_lengths, merged
from outrider.extras.advise.report import Outcome, print_report
from outrider.extras.advise.settings import Advise
from outrider.lab.measuring.compare import questions
from outrider.lab.measuring.texts import cache_folder
from outrider.lab.measuring.variants import PLAIN_NAME, Question, Settings, Variant
from outrider.lab.runs.speculation_profile import NAME, Subject, class_name, profile
from outrider.lab.statistics.acceptance import acceptance
from outrider.lab.statistics.intervals import interval
from outrider.lab.statistics.rates import RATES
from outrider.plugins.config import build
from outrider.plugins.reading import plain_settings, plain_values

Costs = dict[str, Annotated[list[Seconds], AtLeast(2)]]

CHECKED = 3
"""The settings that are decoded on the other half: the advised one, and those of the next two."""


def advise(settings: Advise) -> None:
    """Prints which drafter to use, and what it brings; all of it is saved in Hydra's run dir."""
    prompts = build(settings.data)
    require(len(prompts) > 1, "data", len(prompts), "two prompts or more, half of them to check")
    known = _costs(settings.costs)
    target: Target = build(settings.target)
    configs, variants, left_out = candidates(settings, target)
    writing = Settings(
        gamma=settings.gamma,
        budget=settings.budget,
        sampling=build(settings.sampling),
        max_new_tokens=settings.max_new_tokens,
    )
    cache, chat = cache_folder(), settings.chat
    asked = questions(target, prompts, writing, chat=chat, answers=True, folder=cache)
    columns = TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=remarks()) as progress:
        task = progress.add_task("", total=None)
        trial = Trial(
            target, writing, lambda name: progress.update(task, description=visible(name))
        )
        outcomes = [
            _outcome(trial, variants, asked, known, *place)
            for place in product(settings.concurrency, [*settings.contexts] or [None])
        ]
    first, setting = outcomes[0], outcomes[0].advice.first
    config, folder = configs[setting.drafter], Path(HydraConfig.get().runtime.output_dir)
    rates = acceptance(first.checked[setting.drafter], setting.gamma)
    assert rates is not None, "the advised setting was decoded"
    subject = Subject(
        plain_values(config["drafter"]),
        plain_values(settings.target),
        class_name(plain_values(config["verifier"])),
        class_name(plain_values(config["policy"])),
        not variants[setting.drafter].drafter.trees,
    )
    pasted = lines(config, setting.gamma, rates.marginal)
    conditions = {"engine": "outrider", "concurrency": first.texts, "prompts": len(prompts) // 2}
    write_whole(folder / NAME, json.dumps(profile(rates, subject, conditions), indent=2) + "\n")
    content = {
        "outcomes": [outcome.plain() for outcome in outcomes],
        "costs": first.costs,
        "left_out": left_out | trial.failed,
        "lines": pasted,
        "settings": plain_settings(settings),
    }
    print_json(content)
    print_report(outcomes, left_out | trial.failed, pasted)
    write_whole(folder / "advice.json", json.dumps(content, indent=1) + "\n")
    for name in ("advice.json", NAME):
        remarks(stderr=False).print(plain(folder / name), soft_wrap=True)


def _costs(path: str | None) -> Mapping[str, list[float]]:
    """Returns the seconds of rounds by drafter and draft length, that a file holds."""
    if path is None:
        return {}
    try:
        content = json_in(Path(path).expanduser())
    except ValueError as error:
        raise ConfigError(f"costs={path!r}: expected JSON ({error})") from error
    costs = content.get("costs", content) if isinstance(content, dict) else content
    known: Mapping[str, list[float]] = values_of({"costs": Costs}, {"costs": costs})["costs"]
    return known


def _outcome(
    trial: Trial,
    variants: Mapping[str, Variant],
    asked: Sequence[Question],
    known: Mapping[str, list[float]],
    texts: int,
    context: int | None,
) -> Outcome:
    """Returns the advice from every other prompt, and what it brings on the prompts between."""
    questions = asked if context is None else trial.at_length(asked, context)
    ids = [*dict.fromkeys(question.prompt for question in questions)]
    chosen = [it for it in questions if it.prompt in ids[::2]]
    others = [it for it in questions if it.prompt in ids[1::2]]
    found = merged(trial.overlaps(variants, chosen), trial.in_turn(variants, chosen, texts))
    clock = Clock(found[PLAIN_NAME], trial.writing.max_new_tokens, known)
    settings, costs = list[Setting](), dict[str, list[float]]()
    for name in variants.keys() & found.keys():
        variant = variants[name]
        gamma = variant.gamma or trial.writing.gamma
        if has_lengths(variant):
            settings += by_length(name, gamma, found[name], clock)
            costs[name] = round_seconds(decodings(found[name]), gamma, clock.most)
        else:
            settings.append(as_measured(name, gamma, found[name]))
    advice = advice_of(settings)
    checking = {
        it.drafter: replace(variants[it.drafter], gamma=it.gamma) for it in advice.best[:CHECKED]
    }
    checked = trial.decoded(checking, others, texts)
    speedups = {
        name: interval(RATES["speedup"].statistic(own), "log")
        for name, own in checked.items()
        if name != PLAIN_NAME
    }
    groups = groups_of(found[advice.first.drafter])
    return Outcome(texts, context, advice, speedups, checked, groups, costs)
