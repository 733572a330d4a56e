"""`outrider theory`: what the papers predict for an alpha, a draft length and a cost ratio."""

import itertools
import math
from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from outrider import theory as formulas
from outrider.base.errors import require
from outrider.base.terminal import print_json, remarks, results
from outrider.extras.theory.settings import Theory, values

HEADINGS = {
    "alpha": "alpha",
    "gamma": "gamma",
    "c": "c",
    "tokens": "tokens\nper call",
    "filled": "r'",
    "speedup": "speed-\nup",
    "optimal_gamma": "best\ngamma",
    "optimal_speedup": "with\nthat",
    "smallest_gain": "at\nleast",
    "oracle": "or-\nacle",
    "operations": "ops",
}
"""By column, its heading."""

LEGEND = {
    "tokens per call": "1 + alpha + ... + alpha^gamma (Leviathan et al. 2211.17192, Equation 1)",
    "r'": "that over gamma + 1 (compare Chen et al. 2302.01318)",
    "speedup": "over plain decoding (Theorem 3.8)",
    "best gamma": "that up to 64 with the largest speedup; 0 if drafting does not pay (3.5)",
    "with that": "the speedup with the best gamma",
    "at least": "a speedup that some gamma is sure to reach (Corollary 3.9)",
    "oracle": "the speedup if drafts stop before each rejection; no gamma exceeds it (3.5)",
}
"""By figure, what it is."""


def theory(settings: Theory) -> None:
    """Prints a row of predictions for each combination of alpha, gamma and c.

    With `paper=table1` it prints the paper's table.
    """
    alphas, gammas, costs = map(values, (settings.alpha, settings.gamma, settings.c))
    c_hat = settings.c_hat
    if settings.layout is None:
        rows = [predictions(*row, c_hat) for row in itertools.product(alphas, gammas, costs)]
        operations = f"operations over plain ones at c_hat={c_hat or 0:g} (Theorem 3.11)"
        _print_rows(rows, LEGEND if c_hat is None else LEGEND | {"ops": operations})
    else:
        require(len(alphas) == len(gammas), "gamma", gammas, "as many values as alpha has")
        pairs = zip(alphas, gammas, strict=True)
        rows = [predictions(*pair, costs[0], c_hat or 0) for pair in pairs]
        headings = ("alpha", "gamma", "OPERATIONS", "SPEED")
        columns = (Column(heading, justify="right") for heading in headings)
        table = Table(*columns, box=SIMPLE_HEAD, show_edge=False)
        for row in rows:
            factors = (f"{row[name]:.2f}X" for name in ("operations", "speedup"))
            table.add_row(f"{row['alpha']:g}", f"{row['gamma']}", *factors)
        results().print(table)
    # JSON has no infinity: null instead.
    finite = [{name: it if math.isfinite(it) else None for name, it in row.items()} for row in rows]
    print_json(finite)


def _print_rows(rows: Sequence[Mapping[str, float]], legend: Mapping[str, str]) -> None:
    """Prints figures, and what each of them is: a line a figure, or a table of several rows."""
    lines = Table.grid(padding=(0, 2))
    if len(rows) == 1:
        for name, value in rows[0].items():
            heading = HEADINGS[name].replace("-\n", "").replace("\n", " ")
            lines.add_row(heading, _cell(name, value), legend.get(heading, ""))
    else:
        columns = (Column(HEADINGS[name], justify="right", no_wrap=True) for name in rows[0])
        table = Table(*columns, box=SIMPLE_HEAD, collapse_padding=True, show_edge=False)
        for row in rows:
            table.add_row(*(_cell(name, value) for name, value in row.items()))
        results().print(table)
        for line in legend.items():
            lines.add_row(*line)
    (results() if len(rows) == 1 else remarks(stderr=False)).print(lines)


def predictions(alpha: float, gamma: int, c: float, c_hat: float | None) -> dict[str, float]:
    """Returns the figures of one row, by column; `operations` only if `c_hat` is given.

    Raises `ConfigError` if a number is out of range.
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
        row["operations"] = formulas.operations(alpha, gamma, c_hat)
    return row


def _cell(name: str, value: float) -> str:
    return f"{value:g}" if name in ("alpha", "gamma", "c", "optimal_gamma") else f"{value:.3f}"
