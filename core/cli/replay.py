"""A comparison from a card: its target, prompts and drafters take the place of models."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig

from outrider.base.errors import require
from outrider.base.terminal import remark
from outrider.cli.settings import Compare
from outrider.data.prompts import Prompt
from outrider.lab.measuring.laws import READINGS
from outrider.lab.measuring.recorded import RecordedDrafter, RecordedTarget, laws_of
from outrider.lab.measuring.variants import Question
from outrider.lab.runs.labels import model
from outrider.lab.runs.run import Run, load
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.pairs import drafter_in

OF_THE_CARD = ("target", "data", "sampling", "max_new_tokens", "chat")
"""The settings that a card has."""


def replayed(settings: Compare, reading: str = READINGS[0]) -> Compare:
    """Returns the settings of a comparison whose parts a card has.

    Drafters that are not in the card run by themselves along its texts.

    Raises `ConfigError` if the comparison needs what the card does not have.
    """
    assert settings.card is not None, "only a comparison from a card is replayed"
    words = [word.partition("=")[0] for word in HydraConfig.get().overrides.task]
    own = next((word for word in words if word.partition(".")[0] in OF_THE_CARD), "")
    require(not own, own, "...", f"none beside card={settings.card}, which has it")
    require(settings.protocol != "decode", "protocol", "decode", "overlap: a card holds no times")
    folder = Path(settings.card).expanduser().resolve()
    card, run = str(folder), load(folder)
    require(run.finished, "card", card, "a finished one; the command that records it continues")
    known, given = laws_of(card)[0].autoregressive, run.facts["settings"]
    drafters = {**settings.drafters}
    gamma = settings.gamma if "gamma" in words else given["gamma"]
    if "drafters" not in words:
        if left := ", ".join(name for name in run.drafters if name not in known):
            remark(f"not in the card, since they write trees or depend on earlier rounds: {left}")
        drafters = {name: {} for name in run.drafters if name in known}
    for name, own in drafters.items():
        if (source := _source(name, known)) is not None:
            depth, most = own.get("gamma", gamma), run.gamma(source)
            expected = f"at most {most}, as deep as the card's {source} was recorded"
            require(known[source] or depth <= most, "gamma", depth, expected)
            drafters[name] = {**own, "drafter": _config(RecordedDrafter, card, reading, source)}
    return replace(
        settings,
        card=card,
        protocol="overlap",
        gamma=gamma,
        target=_config(RecordedTarget, card, reading, model(given)),
        data=tuple(_prompts(run, card)),
        drafters=drafters,
        sampling=given["sampling"],
        max_new_tokens=given["max_new_tokens"],
    )


def _config(part: type, card: str, reading: str, name: str) -> dict[str, str]:
    place = f"{part.__module__}.{part.__qualname__}"
    return {"_target_": place, "card": card, "reading": reading, "model": name}


def _source(name: str, known: Mapping[str, Any]) -> str | None:
    """Returns the drafter of a card that a variant is, if it is one."""
    return next((it for it in (name, drafter_in(name)) if it in known), None)


def _prompts(run: Run, card: str) -> list[Prompt]:
    categories = {laws.question[0]: laws.question[2] for laws in laws_of(card)}
    turns: dict[str, list[str]] = {}
    for prompt, _, text in run.facts["questions"]:
        turns.setdefault(prompt, []).append(text)
    return [Prompt(name, categories[name], tuple(own)) for name, own in turns.items()]


def questions_of(card: str) -> list[Question]:
    """Returns the questions of a card, with the target's texts."""
    return [
        Question(*it.question, it.tokens[: it.start], it.tokens[it.start :], number=number)
        for number, it in enumerate(laws_of(card))
    ]


def error_of(summary: Summary, others: Sequence[Summary]) -> dict[str, dict[str, float]]:
    """Returns by drafter and rate twice how far other readings of a card differ, to two digits.

    Once is a bound for rules that accept min(q, p / l); others may lie beyond both readings.
    """
    found: dict[str, dict[str, float]] = {row.drafter: {} for row in summary.rows}
    for row, *beside in zip(summary.rows, *(other.rows for other in others), strict=True):
        for rate, figure in row.rates.items():
            values = [theirs.value for it in beside if (theirs := it.rates[rate]) is not None]
            if figure is not None and values:
                error = 2 * max(abs(figure.value - value) for value in values)
                found[row.drafter][rate] = float(f"{error:.2g}")
    return found
