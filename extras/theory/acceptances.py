"""How often a drafter was accepted, from a run's comparison.json or a speculation_profile.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.base.errors import ConfigError
from outrider.base.json_values import json_in
from outrider.extras.theory.draft_costs import MODULES
from outrider.extras.theory.speculation_profile import read_profile
from outrider.lab.runs.speculation_profile import NAME, module_of
from outrider.theory import expected_tokens

SMALL = "small_lm"
"""The module of drafters that are models."""


@final
@dataclass(frozen=True, slots=True)
class Acceptance:
    """What a drafter's drafts brought.

    cost: what `drafting_of` takes for its cost; None if that is not known.
    tokens_by_length: the mean tokens of a round, by the length of a draft, as measured.
    alpha: the acceptance rate that longer drafts are worked out from.
    speedup: as measured; None if no time was.
    """

    drafter: str
    cost: Mapping[str, str] | None
    tokens_by_length: Mapping[int, float]
    alpha: float
    speedup: float | None = None

    def tokens(self, gamma: int) -> float:
        """Returns the tokens of a round with drafts of some length, measured or worked out."""
        measured = self.tokens_by_length.get(gamma)
        return expected_tokens(self.alpha, gamma) if measured is None else measured


def read_acceptances(run: str) -> list[Acceptance]:
    """Returns those of a run's folder, of a comparison.json, or of a speculation_profile.json.

    Raises:
        ConfigError: there is no such file, or nothing in it was drafted.
    """
    path = Path(run).expanduser()
    path = path / "comparison.json" if path.is_dir() else path
    if path.name == NAME:
        profile = read_profile(path)
        method = profile.method or "drafter"
        first = profile.conditional_accept_rates[0]
        lengths = profile.tokens_by_length()
        return [Acceptance(method, _cost(method, method), lengths, first)]
    try:
        content = json_in(path)
        rows = [(row, content["drafters"][row["drafter"]]) for row in content["rows"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        expected = f"the folder of a run, its comparison.json, or a {NAME}"
        raise ConfigError(f"run={run!r}: expected {expected} ({error})") from None
    found = [_of_row(row, parts) for row, parts in rows if _drafted(row)]
    if not found:
        raise ConfigError(f"run={run!r}: expected a run that decoded with drafts")
    return found


def _cost(name: str, module: str, model: str | None = None) -> Mapping[str, str] | None:
    if model:
        return {"name": name, "model": model}
    return {"name": name, "like": MODULES[module]} if module in MODULES else None


def _drafted(row: Mapping[str, Any]) -> bool:
    return bool(row.get("acceptance") and row.get("counts") and row["counts"]["drafted"])


def _of_row(row: Mapping[str, Any], parts: Mapping[str, Any]) -> Acceptance:
    config = parts["drafter"]
    module = module_of(config)
    rates = row["acceptance"]["marginal_accept_rates"]
    chain = row.get("acceptance_by_rank") is None
    return Acceptance(
        drafter=row["drafter"],
        cost=_cost(row["drafter"], module, config.get("model") if module == SMALL else None),
        tokens_by_length={
            length: 1 + sum(rates[:length])
            for length in (range(1, len(rates) + 1) if chain else [len(rates)] if rates else [])
        },
        alpha=row["alpha_tested"] or 0.0,
        speedup=row.get("speedup"),
    )
