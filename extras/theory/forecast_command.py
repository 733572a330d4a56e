"""`outrider theory hardware=... model=...`: what drafting brings on a machine that is not here."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.base.errors import ConfigError, require
from outrider.base.terminal import plain, print_json, remarks, results
from outrider.extras.theory.acceptances import Acceptance, read_acceptances
from outrider.extras.theory.draft_costs import Drafting, drafting_of
from outrider.extras.theory.forecast import Forecast, forecast
from outrider.extras.theory.hardware import Hardware
from outrider.extras.theory.roofline import Place
from outrider.extras.theory.settings import Theory, values
from outrider.extras.theory.shapes import Shape, read_shape
from outrider.theory import expected_tokens

HEADINGS = {
    "context": "con-\ntext",
    "gamma": "gam-\nma",
    "verify": "ver-\nify",
    "pays from": "pays\nfrom",
    "speedup": "speed-\nup",
}
"""By column, its heading where that is not its name."""

LEGEND = """\
plain, verify  milliseconds of a pass of the target for one token, and for the draft and one more
draft          milliseconds of drafting
cost           draft and verify over plain: the tokens that a round has to bring
pays from      the alpha from which on it brings them (Leviathan et al. 2211.17192, Equation 1);
               of a tree, the probability that one of a node's children is accepted
All times are a roofline's, of {}: no pass was run."""

RUN_LEGEND = """\
tokens         of a round, as the run measured; of longer drafts, worked out from its alpha
here           the speedup that the run measured on its own machine"""


def print_forecasts(settings: Theory) -> None:
    """Prints a row for each drafter, batch, context and draft.

    Raises:
        ConfigError: a model has no shape that can be predicted, or a drafter's cost is not known.
    """
    assert settings.hardware is not None
    hardware = Hardware(**settings.hardware)
    if settings.model is None:
        raise ConfigError("model=null: expected a config.json, a folder with one, or a hub id")
    target = read_shape(settings.model, settings.bits, settings.dtype)
    rows = list(_rows(settings, hardware, target))
    table = Table(box=SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    for name in rows[0]:
        heading = HEADINGS.get(name, name)
        table.add_column(heading, justify="left" if name == "drafter" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    results().print(table)
    print_json(rows)
    notes = remarks(stderr=False)
    notes.print(plain(f"\n{LEGEND.format(hardware.name)}"), soft_wrap=True)
    if settings.run is not None:
        notes.print(plain(RUN_LEGEND), soft_wrap=True)


def _rows(settings: Theory, hardware: Hardware, target: Shape) -> Iterator[dict[str, Any]]:
    drafters = _drafters(settings, target)
    budgets = [None] if settings.budget is None else values(settings.budget)
    choices = itertools.product(
        drafters, values(settings.batch), values(settings.context), values(settings.gamma), budgets
    )
    for (drafting, acceptance), batch, context, gamma, budget in choices:
        place = Place(hardware, batch, context, settings.devices)
        found = forecast(target, drafting, place, gamma, budget)
        gains = _gains(found, acceptance, values(settings.alpha))
        yield {
            "drafter": found.drafter,
            "batch": batch,
            "context": context,
            **_times(found, settings.budget is not None),
            **gains,
        }


def _times(found: Forecast, with_nodes: bool) -> dict[str, Any]:
    return {
        "gamma": found.gamma,
        **({"nodes": found.nodes} if with_nodes else {}),
        "plain": 1000 * found.plain,
        "draft": 1000 * found.draft,
        "verify": 1000 * found.verify,
        "cost": found.cost,
        "pays from": found.pays_from,
    }


def _gains(
    found: Forecast, acceptance: Acceptance | None, alphas: Sequence[float]
) -> dict[str, Any]:
    """Returns the speedup at each alpha, or the one that follows from a run."""
    if acceptance is None:
        speedups = (found.speedup(expected_tokens(alpha, found.gamma)) for alpha in alphas)
        return {f"at {alpha:g}": gain for alpha, gain in zip(alphas, speedups, strict=True)}
    tokens = acceptance.tokens(found.gamma)
    return {"tokens": tokens, "speedup": found.speedup(tokens), "here": acceptance.speedup}


def _drafters(
    settings: Theory, target: Shape
) -> list[tuple[Drafting, Acceptance] | tuple[Drafting, None]]:
    """Returns the drafters of the settings, or those of the run with what they brought.

    A drafter of the run costs what the settings say of its name, or what is known of its kind.
    """
    if settings.run is None:
        return [(drafting_of(item, target), None) for item in settings.drafters]
    said: dict[str, Any] = {
        str(item.get("name")): item for item in settings.drafters if isinstance(item, Mapping)
    }
    found, unknown = list[tuple[Drafting, Acceptance]](), []
    for acceptance in read_acceptances(settings.run):
        name = acceptance.drafter
        cost = said.get(name, acceptance.cost)
        if cost is None:
            unknown.append(name)
        else:
            found.append((drafting_of(cost, target), acceptance))
    if unknown:
        example = f"{{name: {unknown[0]}, model: its config.json}}"
        line = f"left out, for want of a cost: {', '.join(unknown)}; add drafters=[{example}]"
        remarks().print(plain(line), soft_wrap=True)
    require(bool(found), "drafters", settings.drafters, "the cost of a drafter of the run")
    return list(found)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
