"""Every drafter side by side, at both temperatures.

    python evidence/drafters.py --prompts questions.jsonl --page docs/evidence/drafters.md

Those that come without weights take part if `--trained` names a folder with theirs.

Runs `outrider compare` once for the chains and once for the trees, at temperature 0 and at 1. A run
that is already in `--results` is continued if it is unfinished. What each found is written beside
the page (runs/). It needs an idle machine, since it measures times.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pages import compared, figure, heading, publish, where, write_page

from outrider.lab.runs.row import Row
from outrider.lab.runs.summary import Summary

DYNAMIC = "{drafter: eagle, tree: 'dynamic:8', name: eagle dynamic tree}"
EXIT = "{drafter: early_exit, layers: 8, name: early_exit of 8 layers}"
DRAFTERS: Mapping[str, Sequence[str]] = {
    "token": (
        *("prompt_lookup", "suffix", "bigram", "unigram", "random", "small_lm", "hierarchy"),
        *("quantized", "swift", "medusa", "mlp_speculator", "eagle", "eagle3"),
        *("hybrid", EXIT),
    ),
    "candidates": ("token_recycling", "lookahead_decoding", DYNAMIC),
}
"""By acceptance rule, the drafters whose drafts it takes."""

TRAINED: Mapping[str, str] = {
    **dict.fromkeys(("hydra", "redrafter", "mtp", "peagle", "dflash"), "path"),
    "early_exit": "path",
    "rest": "path",
    "pard": "model",
}
"""By drafter without weights, its setting for the folder that `outrider train` has written."""

SIZES = ("gamma=4", "budget=16")
SAMPLINGS = ("greedy", "standard")
"""Temperature 0 and temperature 1."""

HEADINGS = (
    *("drafter", "tokens per call", "cost", "speedup"),
    *("tokens per call, T = 1", "speedup, T = 1"),
)


def side_by_side(rule: str, sampling: str, options: argparse.Namespace) -> Summary:
    """Returns the comparison of the drafters of a rule."""
    trained = trained_drafters(options.trained) if rule == "token" else ()
    drafters = ["none", *(options.only or DRAFTERS[rule]), *trained]
    return compared(
        Path(options.results) / f"{rule}-{sampling}",
        *[f"drafters=[{','.join(drafters)}]", "protocol=decode", *SIZES],
        *[f"verifier={rule}", f"sampling={sampling}", f"target={options.target}", "turns=1"],
        *[f"data.limit={options.limit}", f"max_new_tokens={options.tokens}", "pairs=false"],
        *(["data=demo"] if options.prompts is None else from_file(options.prompts)),
        *options.settings,
    )


def trained_drafters(folder: Path | None) -> Iterator[str]:
    """Yields the drafters whose weights are in a folder, in one named like the drafter."""
    for name, setting in TRAINED.items():
        if folder is not None and (folder / name).is_dir():
            path = (folder / name).absolute()
            yield f"{{drafter: {name}, {setting}: {path}, name: {name} trained}}"


def from_file(prompts: str) -> list[str]:
    """Returns the settings that take prompts from a file."""
    return ["data=jsonl", f"data.path={Path(prompts).absolute()}"]


def cost(row: Row) -> str:
    """Returns the time of a drafted token, as a share of a target call for one token."""
    return "" if row.prediction is None else f"{row.prediction.cost_ratio:.2f}"


def lines(rows: Sequence[Mapping[str, Row]]) -> Iterator[str]:
    """Yields the table, the fastest at temperature 0 first.

    rows: by drafter, at temperature 0 and at 1.
    """
    greedy, sampled = rows

    def speedup(name: str) -> float:
        value = greedy[name].rates["speedup"]
        return 0.0 if value is None else value.value

    yield from heading(HEADINGS)
    for name in sorted(greedy, key=speedup, reverse=True):
        cells = [f"`{name}`"]
        for row in (greedy[name], sampled[name]):
            tokens = row.rates["block_efficiency"]
            cells += ["" if tokens is None else f"{tokens.value:.2f}"]
            cells += [cost(row)] if row is greedy[name] else []
            cells += [figure(row.rates["speedup"])]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--prompts", help="a JSONL file; the demo prompts by default")
    parser.add_argument("--limit", type=int, default=24, help="prompts, evenly spaced")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--results", default="build/drafters")
    parser.add_argument("--page", type=Path, help="the page that the table goes to")
    parser.add_argument("--trained", type=Path, help="a folder with trained drafters, by name")
    parser.add_argument("--only", nargs="+", help="drafters of chains, instead of all")
    parser.add_argument("--target", default="smollm2", help="the name of a target")
    parser.add_argument("--settings", nargs="*", default=(), help="more for outrider compare")
    options = parser.parse_args()
    tables: list[dict[str, Row]] = []
    for sampling in SAMPLINGS:
        rows: dict[str, Row] = {}
        for rule in ["token"] if options.only else DRAFTERS:
            summary = side_by_side(rule, sampling, options)
            if options.page:
                publish(summary, options.page, f"{rule}-{sampling}")
            rows = {row.drafter: row for row in summary.rows} | rows
        tables.append(rows)
    text = [f"Measured {where(summary)}.", "", *lines(tables)]
    print("\n".join(text))
    if options.page:
        write_page(options.page, "table", text)


if __name__ == "__main__":
    main()
