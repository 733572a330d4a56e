"""What a run of `outrider compare` is made of: its settings, built."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from outrider.base.errors import ConfigError, require
from outrider.base.terminal import plain, remarks
from outrider.cli.run_facts import run_facts
from outrider.cli.settings import Compare
from outrider.cli.variant_configs import variant_configs, variants_of
from outrider.contract.target import Target
from outrider.data.prompts import Prompt
from outrider.data.score import Score
from outrider.lab.measuring.compare import fit
from outrider.lab.measuring.variants import Settings, Variant
from outrider.lab.runs.table import COLUMNS
from outrider.lab.statistics.pairs import check_reference
from outrider.plugins.config import build, option_configs, plain_values


@final
@dataclass(frozen=True, slots=True)
class RunInputs:
    """What is measured, and how.

    writing: how every text is written.
    facts: the content of `run.json`, which has to be the same when the run is resumed.
    """

    target: Target
    prompts: Sequence[Prompt]
    variants: Mapping[str, Variant]
    writing: Settings
    facts: Mapping[str, Any]


def run_inputs(settings: Compare) -> RunInputs:
    """Returns what the settings describe. What is cheap to refuse comes before any model.

    Raises:
        ConfigError: a part can't be made, or does not go with the others.
    """
    nodes = variant_configs(settings)
    configs = {
        name: {role: plain_values(node) for role, node in parts.items()}
        for name, parts in nodes.items()
    }
    variants = variants_of(nodes)
    prompts = build(settings.data)
    if settings.shard is not None:
        number, _, count = settings.shard.partition("/")
        prompts, all_of_them = prompts[int(number) - 1 :: int(count)], len(prompts)
        require(len(prompts) > 0, "shard", settings.shard, f"a part of {all_of_them} prompts")
    prompts = [replace(prompt, turns=prompt.turns[: settings.turns]) for prompt in prompts]
    check_reference(settings.reference, configs)
    score_nodes = _score_nodes(settings)
    scores = {name: build(node) for name, node in score_nodes.items()}
    _check_scores(scores, prompts)
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
        quality=scores,
    )
    fit(target, variants)
    score_configs = {name: plain_values(node) for name, node in score_nodes.items()}
    facts = run_facts(settings, configs, variants, target, prompts, scores=score_configs)
    return RunInputs(target, prompts, variants, writing, facts)


def _score_nodes(settings: Compare) -> dict[str, Any]:
    """Returns the configs of the scores that texts are given, by name."""
    quality = settings.quality
    if quality is None:
        return {}
    nodes = option_configs("score", [quality] if isinstance(quality, str) else quality)
    if nodes and settings.protocol == "overlap":
        raise ConfigError(f"quality={list(nodes)}: expected null with protocol=overlap")
    return nodes


def _check_scores(scores: Mapping[str, Score], prompts: Sequence[Prompt]) -> None:
    """Prints what users have to know of the scores before the run.

    Raises:
        ConfigError: no prompt has the data for a score, or a rate has its name.
    """
    for name, score in scores.items():
        require(name not in COLUMNS, "quality", name, "another name, there is a rate of that name")
        has_data = any(score.judge(prompt, 1) is not None for prompt in prompts)
        require(has_data, "quality", name, f"prompts with {score.needs}")
        if note := score.note():
            remarks().print(plain(note), soft_wrap=True)
