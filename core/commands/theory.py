"""`outrider theory`: what the papers predict for an acceptance, a draft length and a cost ratio."""

import itertools
import math
from collections.abc import Callable
from typing import Any

from omegaconf import DictConfig
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from outrider import theory as formulas
from outrider.errors import is_int, is_number, require
from outrider.plugins.config import plain_values

HEADINGS = {
    "alpha": "alpha",
    "gamma": "gamma",
    "c": "c",
    "tokens": "tokens\na call",
    "filled": "r'",
    "speedup": "speed-\nup",
    "optimal_gamma": "best\ngamma",
    "optimal_speedup": "with\nthat",
    "smallest_gain": "at\nleast",
    "oracle": "or-\nacle",
    "operations": "ops",
}
"""By column, its heading."""

LEGEND = """\
tokens a call  1 + alpha + ... + alpha^gamma (Leviathan et al. 2211.17192, Equation 1)
r'             that over gamma + 1 (compare Chen et al. 2302.01318)
speedup        over plain decoding (Theorem 3.8)
best gamma     the gamma up to 64 with the largest speedup; 0 if drafting does not pay (3.5)
with that      the speedup with the best gamma
at least       a speedup that some gamma is sure to reach (Corollary 3.9)
oracle         the speedup of drafts that stop before each rejection; no gamma exceeds it (3.5)"""

OPERATIONS_LEGEND = """\
ops            arithmetic operations over those of plain decoding at c_hat={} (Theorem 3.11)"""


def theory(config: DictConfig) -> None:
    """Prints a row of predictions for each combination of alpha, gamma and c."""
    alphas = _values(config, "alpha", is_number, "a number in [0, 1]")
    gammas = _values(config, "gamma", is_int, "a whole number of at least 0")
    costs = _values(config, "c", is_number, "a number of at least 0")
    c_hat = config.c_hat
    require(c_hat is None or is_number(c_hat), "c_hat", c_hat, "a number of at least 0, or null")
    rows = [predictions(*row, c_hat) for row in itertools.product(alphas, gammas, costs)]
    table = Table(box=SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    for name in rows[0]:
        table.add_column(HEADINGS[name], justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(name, value) for name, value in row.items()))
    console = Console(highlight=False)
    console.print(table)
    console.print(f"\n{LEGEND}", soft_wrap=True)
    if c_hat is not None:
        console.print(OPERATIONS_LEGEND.format(f"{c_hat:g}"), soft_wrap=True)


def predictions(alpha: float, gamma: int, c: float, c_hat: float | None) -> dict[str, float]:
    """Returns the figures of one row, by column; `operations` only if `c_hat` is given.

    Raises:
        ConfigError: a number is out of range.
    """
    tokens = formulas.expected_tokens(alpha, gamma)
    optimal_gamma = formulas.optimal_gamma(alpha, c)
    is_unbounded = alpha == 1 and c == 0
    row = {
        "alpha": alpha,
        "gamma": gamma,
        "c": c,
        "tokens": tokens,
        "filled": formulas.filled_share(tokens, gamma),
        "speedup": formulas.walltime_improvement(alpha, gamma, c),
        "optimal_gamma": optimal_gamma,
        "optimal_speedup": formulas.walltime_improvement(alpha, optimal_gamma, c),
        "smallest_gain": formulas.smallest_gain(alpha, c),
        "oracle": math.inf if is_unbounded else formulas.oracle_improvement(alpha, c),
    }
    if c_hat is not None:
        require(c_hat >= 0, "c_hat", c_hat, "a number of at least 0")
        row["operations"] = formulas.operations(alpha, gamma, c_hat)
    return row


def _values(
    config: DictConfig, name: str, is_valid: Callable[[object], bool], expected: str
) -> list[Any]:
    """Returns a setting's values: the items of a list, or the one number."""
    setting = plain_values(config[name])
    values = setting if isinstance(setting, list) else [setting]
    require(len(values) > 0, name, values, f"{expected}, or a list of them")
    for value in values:
        require(is_valid(value), name, value, f"{expected}, or a list of them")
    return values


def _cell(name: str, value: float) -> str:
    return f"{value:g}" if name in ("alpha", "gamma", "c", "optimal_gamma") else f"{value:.3f}"
