"""What a comparison measures: its parts, made and found to fit each other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, final

from hydra.core.hydra_config import HydraConfig

from outrider.base.errors import ConfigError, require
from outrider.cli.replay import questions_of
from outrider.cli.settings import Compare
from outrider.cli.variants import variants_of
from outrider.contract.target import Target
from outrider.data.prompts import Prompt
from outrider.data.score import Score
from outrider.decoding.kinds import refuse_lossy
from outrider.lab.measuring.compare import PROTOCOLS, fit, measure, questions
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.measuring.recorded import FILES
from outrider.lab.measuring.texts import cache_folder
from outrider.lab.measuring.variants import Question, Settings, Variant
from outrider.lab.runs.identity import certify, identity, provenance, trained_on
from outrider.lab.tables.table import RATES
from outrider.plugins.config import build
from outrider.plugins.reading import plain_settings, plain_values
from outrider.targets.passes.engine import engine_of

LISTS = ("resume", "drafters", "verifiers", "policies", "reference")
"""The settings that `run.json` does not repeat among its settings."""

SHOWN = (
    "pairs", "by_task", "objective", "reports", "lossy", "baseline", "fail_if", "out",
    "cache", "columns",
)  # fmt: skip
"""The settings that decide what is printed or reported, and nothing else."""


@final
class Work:
    """A comparison that is ready to be measured.

    facts: the content of `run.json`, which has to be the same when the run is resumed.

    What is cheap to refuse comes before any model. Raises `ConfigError` if a part can't be made, or
    does not go with the others.
    """

    def __init__(self, settings: Compare) -> None:
        configs, self._variants = variants_of(settings)
        prompts: Sequence[Prompt] = build(settings.data)
        if settings.shard is not None:
            number, _, count = settings.shard.partition("/")
            prompts, all_of_them = prompts[int(number) - 1 :: int(count)], len(prompts)
            require(len(prompts) > 0, "shard", settings.shard, f"a part of {all_of_them} prompts")
        self._prompts = [replace(it, turns=it.turns[: settings.turns]) for it in prompts]
        scores = {name: build(config) for name, config in (settings.quality or {}).items()}
        if scores and settings.protocol == "overlap":
            raise ConfigError(f"quality={list(scores)}: expected null with protocol=overlap")
        _check_scores(scores, self._prompts)
        self._target: Target = build(settings.target)
        self._writing = Settings(
            gamma=settings.gamma,
            budget=settings.budget,
            sampling=build(settings.sampling),
            max_new_tokens=settings.max_new_tokens,
            batch=settings.batch,
            together=settings.together,
            repeats=settings.repeats,
            draft_timeout=settings.draft_timeout,
            quality=scores,
            card=Path(settings.out).expanduser() / FILES if settings.out else None,
            keep=None if settings.keep == "all" else settings.keep,
        )
        fit(self._target, self._variants)
        for it in self._variants.values() if settings.lossy == "refuse" else ():
            refuse_lossy(target=self._target, verifier=it.verifier, policy=it.policy)
        self.facts: Any = self._facts(settings, configs)
        if settings.lossy == "refuse":
            certify(Path(HydraConfig.get().runtime.output_dir), self._target, plain_values(configs))
        self._settings = settings

    def _facts(self, settings: Compare, configs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of `run.json`.

        configs: by variant, the configs of its `drafter`, `verifier` and `policy`, and its lengths.
        """
        start = {"runs_by": _engines(self._target, self._variants)}
        given, parts = plain_settings(settings), plain_values(configs)
        kept = {name: value for name, value in given.items() if name not in (*LISTS, *SHOWN)}
        arguments = [*flags_of_config(), *HydraConfig.get().overrides.task]
        variants = self._variants.items()
        remember = [name for name, it in variants if it.drafter.remembers]
        themselves = [name for name, it in variants if it.drafter.is_target]
        trained = trained_on(parts, self._target, self._prompts)
        return {
            "settings": kept,
            "drafters": parts,
            "protocols": list(PROTOCOLS[settings.protocol]),
            "reference": settings.reference,
            "lossless": {name: it.verifier.lossless for name, it in variants},
            **({"remember": remember} if remember else {}),
            **({"target_itself": themselves} if themselves else {}),
            **({"trained_on": trained} if trained else {}),
            "questions": [
                [prompt.id, turn, text[:300]]
                for prompt in self._prompts
                for turn, text in enumerate(prompt.turns, start=1)
            ],
            "identity": identity(self._target, parts, given["quality"]),
            "starts": [provenance(HydraConfig.get().job.name, arguments) | start],
        }

    def questions(self, on_text: Callable[[], None]) -> list[Question]:
        """Returns the questions, in the order of the prompts.

        on_text: called once for each text that the target writes for them.
        """
        if self._settings.card is not None:
            asked = {(prompt, turn) for prompt, turn, _ in self.facts["questions"]}
            found = questions_of(self._settings.card)
            return [it for it in found if (it.prompt, it.turn) in asked]
        return questions(
            self._target,
            self._prompts,
            self._writing,
            chat=self._settings.chat,
            answers="overlap" in PROTOCOLS[self._settings.protocol],
            folder=cache_folder() if self._settings.cache else None,
            on_text=on_text,
        )

    def measure(
        self, questions: Sequence[Question], done: Sequence[Measurement]
    ) -> Iterator[Measurement]:
        """Yields each measurement as soon as it is there; see `outrider.lab.measuring.compare`."""
        for found in measure(
            self._target,
            self._variants,
            questions,
            self._writing,
            protocol=self._settings.protocol,
            done=done,
        ):
            if self._settings.card is not None and found.overlap is not None:
                # The control is in the card's own figures: a replay has no states.
                found = replace(found, overlap=replace(found.overlap, control=(0.0, 0.0)))
            yield found


def _check_scores(scores: Mapping[str, Score], prompts: Sequence[Prompt]) -> None:
    """Raises `ConfigError` if no prompt has the data for a score, or a rate has its name."""
    for name, score in scores.items():
        require(name not in RATES, "quality", name, "another name, there is a rate of that name")
        has_data = any(score.judge(prompt, 1) is not None for prompt in prompts)
        require(has_data, "quality", name, f"prompts with {score.needs}")


def _engines(target: Target, variants: Mapping[str, Variant]) -> dict[str, str]:
    """Returns what computes the passes of the target, and of each drafter's models, in words."""
    models = {"target": [target.model]} | {
        name: [*variant.drafter.models] for name, variant in variants.items()
    }
    return {
        name: "; ".join(dict.fromkeys(engine_of(model).runs_by(model) for model in some))
        for name, some in models.items()
        if some and None not in some
    }


def flags_of_config() -> list[str]:
    """Returns the flags of the command line that say where its config is, or which one it is."""
    hydra = HydraConfig.get()
    name = str(hydra.job.config_name)
    sources = hydra.runtime.config_sources
    folders = [("-cd", it.path) for it in sources if it.provider == "command-line"]
    return [*chain(*folders), *(["--config-name", name] if name != hydra.job.name else [])]
