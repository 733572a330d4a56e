"""`outrider advise`: measures on half of the prompts, advises, and decodes the other half so."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any, final

from hydra.core.hydra_config import HydraConfig

from outrider.base.bounds import values_of
from outrider.base.errors import ConfigError, OutriderError, nearest, require
from outrider.base.folders import write_whole
from outrider.base.terminal import plain, print_json, remark, results
from outrider.contract.target import Target
from outrider.extras.advise import forecast
from outrider.extras.advise.drafters import SERVERS, candidates, experts_read, lines
from outrider.extras.advise.forecast import advice, table_of
from outrider.extras.advise.settings import Advise, Costs
from outrider.lab.measuring.compare import measure, questions
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.measuring.texts import cache_folder, written
from outrider.lab.measuring.variants import Question, Settings, Variant
from outrider.lab.runs.speculation_profile import NAME, Subject, class_name, profile
from outrider.lab.statistics.acceptance import acceptance
from outrider.lab.statistics.intervals import interval
from outrider.lab.statistics.rates import RATES
from outrider.lab.tables.groups import groups_of, groups_table
from outrider.lab.tables.terminal import shown
from outrider.plugins.config import build
from outrider.plugins.reading import plain_settings, plain_values

CHECKED = 3
"""How many drafters are decoded with on the other half of the prompts."""


@final
@dataclass(frozen=True)
class Adviser:
    """What all advice of a run has in common.

    configs: of each drafter, with its rule and its policy. left_out: takes those that fail.
    languages: by prompt.
    """

    settings: Advise
    target: Target
    configs: Mapping[str, Mapping[str, Any]]
    variants: Mapping[str, Variant]
    left_out: dict[str, str]
    languages: Mapping[str, str]

    def measured(
        self,
        variants: Mapping[str, Variant],
        questions: list[Question],
        writing: Settings,
        protocol: str,
    ) -> dict[str, forecast.ByPrompt]:
        """Returns the measurements of each variant that does not fail, by prompt.

        Some questions come twice where their number is not a multiple of those written together.
        """
        left = {name: it for name, it in variants.items() if name not in self.left_out}
        count = -(-len(questions) // writing.together) * writing.together
        copies = enumerate(islice(cycle(questions), count))
        asked = [replace(question, number=number) for number, question in copies]
        found = list[Measurement]()
        try:
            for it in measure(self.target, left, asked, writing, protocol=protocol):
                found.append(it)
        except OutriderError:
            errors = {it.drafter: it.error for it in found if it.error is not None}
            if not errors or errors.keys() == left.keys():
                raise
            self.left_out.update(errors)
        ids = dict.fromkeys(question.prompt for question in questions)
        return {
            name: [[it for it in found if (it.drafter, it.prompt) == (name, id)] for id in ids]
            for name in left
            if name not in self.left_out
        }

    def settings_of(
        self, chosen: list[Question], writing: Settings
    ) -> tuple[list[forecast.Setting], dict[str, list[float]], dict[str, forecast.ByPrompt]]:
        """Returns what is expected of all settings, from overlaps and from drafts of all lengths.

        With them come the costs of each drafter, and the texts that were written.
        """
        turning = {
            name: replace(it, policy=forecast.InTurn())
            for name, it in self.variants.items()
            if forecast.has_lengths(it)
        }
        along = {name: self.variants[name] for name in turning}
        overlaps = self.measured(along, chosen, writing, "overlap")
        decoded = self.measured({**self.variants, **turning}, chosen, writing, "decode")
        found, costs = list[forecast.Setting](), dict[str, list[float]]()
        known = self.settings.costs or {}
        for name in decoded:
            gamma, own = self.variants[name].gamma or writing.gamma, decoded[name]
            if name in turning:
                rounds = forecast.round_seconds(own, gamma, writing.max_new_tokens)
                costs[name], reads = known.get(name, rounds), name not in known
                found += forecast.by_length(name, overlaps[name], own, costs[name], reads=reads)
            else:
                found.append(forecast.as_measured(name, gamma, own))
        return found, costs, decoded

    def outcome(self, asked: list[Question], writing: Settings, title: str) -> dict[str, Any]:
        """Prints and returns the advice from half of the prompts, and what it brings on others."""
        ids = [*dict.fromkeys(question.prompt for question in asked)]
        chosen, others = (
            [it for it in asked if it.prompt in half] for half in (ids[::2], ids[1::2])
        )
        found, costs, decoded = self.settings_of(chosen, writing)
        best, most = forecast.best_of(found), writing.max_new_tokens
        require(len(best) > 0, "max_new_tokens", most, "longer texts, or prompts with drafts")
        trying = {
            it.drafter: replace(self.variants[it.drafter], gamma=it.gamma) for it in best[:CHECKED]
        }
        checked = self.measured(trying, others, writing, "decode")
        rate = RATES["speedup"]
        speedups = {name: interval(rate.statistic(it), rate.scale) for name, it in checked.items()}
        table, rows = table_of(title, best, speedups)
        first = best[0]
        config, variant = self.configs[first.drafter], self.variants[first.drafter]
        groups = groups_of(decoded[first.drafter], self.languages)
        said = [*advice(best), *experts_read(self.target, variant.drafter)]
        rates = acceptance(checked[first.drafter], first.gamma)
        assert rates is not None, "what is advised was decoded"
        pasted = lines(config, variant.drafter, first.gamma, rates.marginal_accept_rates)
        for each in (table, groups_table(first.drafter, groups)):
            results().print(*shown(each))
        engines = {**dict.fromkeys(("outrider", *SERVERS), "it does not draft so"), **pasted}
        for line in (*said, *(f"{engine}: {line}" for engine, line in engines.items())):
            results(soft_wrap=True).print(plain(line))
        rule, policy = (class_name(plain_values(config[it])) for it in ("verifier", "policy"))
        drafter, target = plain_values(config["drafter"]), plain_values(self.settings.target)
        subject = Subject(drafter, target, rule, policy, not variant.drafter.trees)
        return {
            "title": title,
            "advice": said,
            "settings": plain_values(rows),
            "costs": costs,
            "groups": plain_values(groups),
            "lines": pasted,
            "profile": profile(rates, subject, {"concurrency": writing.together}),
        }


def advise(settings: Advise) -> None:
    """Prints which drafter to use, and what it brings; all of it is saved in Hydra's run dir."""
    prompts = build(settings.data)
    require(len(prompts) > 1, "data", len(prompts), "two prompts or more, half of them to check")
    target: Target = build(settings.target)
    configs, variants, left_out = candidates(settings, target)
    for name in settings.costs or {}:
        if name not in variants:
            raise ConfigError(f"costs.{name}: {nearest(name, variants)}")
    values_of(dict.fromkeys(variants, Costs), settings.costs or {}, "costs")
    languages = {prompt.id: prompt.language for prompt in prompts}
    adviser = Adviser(settings, target, configs, variants, left_out, languages)
    writing = Settings(
        gamma=settings.gamma,
        budget=settings.budget,
        sampling=build(settings.sampling),
        max_new_tokens=settings.max_new_tokens,
    )
    chat, cache = settings.chat, cache_folder()
    asked = questions(target, prompts, writing, chat=chat, answers=True, folder=cache)
    outcomes = []
    for together, length in product(settings.concurrency, [*settings.contexts] or [0]):
        own = at_length(target, asked, writing, length) if length else asked
        title = f"{together} at once{f', prompts of {length} tokens' if length else ''}"
        outcomes.append(adviser.outcome(own, replace(writing, together=together), title))
    for name, reason in adviser.left_out.items():
        remark(f"left out: {name}, {reason}", "dim", stderr=False)
    folder = Path(HydraConfig.get().runtime.output_dir)
    content = {"outcomes": outcomes, "left_out": adviser.left_out, **plain_settings(settings)}
    print_json(content)
    for name, part in (("advice.json", content), (NAME, outcomes[0]["profile"])):
        write_whole(folder / name, json.dumps(part, indent=1) + "\n")
        remark(folder / name, stderr=False)


def at_length(
    target: Target, questions: Sequence[Question], writing: Settings, length: int
) -> list[Question]:
    """Returns the questions with prompts of so many tokens, and the target's texts after them."""
    prompts = []
    for number, question in enumerate(questions):
        others = [*questions[number + 1 :], *questions[:number]]
        before = cycle([token for it in others for token in (*it.tokens, *it.text)])
        tokens = [*islice(before, max(0, length - len(question.tokens))), *question.tokens]
        prompts.append([*tokens[: length // 2], *tokens[len(tokens) - (length - length // 2) :]])
    texts = written(
        target, prompts, writing.sampling, writing.max_new_tokens, batch=1, folder=cache_folder()
    )
    return [
        replace(question, tokens=prompt, text=text)
        for question, prompt, text in zip(questions, prompts, texts, strict=True)
    ]
