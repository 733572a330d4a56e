"""The card of trained weights: what they were made from, how well they do, how to make them again."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.training.corpus import Text

CARD = """\
# {family}

Trained with `{command}`.

| | |
|---|---|
{facts}

On held-out texts, at temperature 1:

| step | {names} |
|---|{lines}|
{rows}

![curve](curve.png)
"""


def card(folder: Path, facts: Mapping[str, Any], curve: Sequence[Mapping[str, float]]) -> None:
    """Writes `README.md`, the curve as a picture, and the facts as JSON, into a folder of weights."""
    names = [name for name in curve[-1] if name != "step"]
    rows = [
        f"| {point['step']:.0f} | " + " | ".join(f"{point[name]:.3f}" for name in names) + " |"
        for point in curve
    ]
    text = CARD.format(
        family=facts["family"],
        command=facts["command"],
        facts="\n".join(
            f"| {name} | {value} |" for name, value in facts.items() if name != "command"
        ),
        names=" | ".join(names),
        lines="|".join("---" for _ in names),
        rows="\n".join(rows),
    )
    (folder / "README.md").write_text(text)
    (folder / "facts.json").write_text(json.dumps(dict(facts), indent=1) + "\n")
    plot(folder / "curve.png", curve)


def learned_from(own: Sequence[Text], held: Sequence[Text]) -> dict[str, int]:
    """Returns the facts about the texts: how many, their tokens, and how many were held out."""
    tokens = sum(len(text.ids) - text.start for text in own)
    return {"texts": len(own), "tokens": tokens, "held-out texts": len(held)}


def plot(place: Path, curve: Sequence[Mapping[str, float]]) -> None:
    """Draws the losses, and what else was measured, over the steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.5), layout="constrained")
    losses, rates = figure.subplots(1, 2)
    steps = [point["step"] for point in curve]
    for name in [name for name in curve[-1] if name != "step"]:
        panel = losses if name in ("loss", "held_out") else rates
        panel.plot(steps, [point[name] for point in curve], marker="o", label=name)
    for panel, title in ((losses, "loss, nats"), (rates, "held-out texts, temperature 1")):
        panel.set(xlabel="step", title=title)
        panel.grid(alpha=0.3)
        if panel.lines:
            panel.legend()
    figure.savefig(place, dpi=110)
