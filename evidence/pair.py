"""A draft model of a target's own family: Leviathan's Tables 2 to 4 and Chen's Figure 1, on a pair.

    python evidence/pair.py --page docs/speed.md

One `outrider compare` at each temperature holds `small_lm` at each gamma and the other drafters
beside it, all against the same plain decoding. Three shorter ones have longer texts, or a target in
another precision, and an `outrider bench` has transformers' assisted generation. A run that is
already in `--results` is continued if it is unfinished. From them are written the page's tables,
beside it what each run found (runs/), and a plot (gains.svg). It needs an idle machine, since it
measures times.
"""

import argparse
import json
import re
import runpy
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

ROOT = Path(__file__).parents[1]
from pages import compared, figure, heading, publish, write_json, write_page

from outrider.cli import main as cli
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import Interval

PAIR = ("Qwen/Qwen2.5-Coder-1.5B-Instruct", "Qwen/Qwen2.5-Coder-0.5B-Instruct")
PROMPTS = Path(__file__).parent / "pair_prompts.jsonl"
GAMMAS = (2, 4, 6)
BEST = 4
"""The gamma of the drafters that are compared side by side."""

LENGTHS = ("T", "gamma", "alpha", "c", "speedup", "predicted", "tokens per call", "of gamma + 1")
RATES = {"alpha": "alpha_tested", "tokens per call": "block_efficiency", "speedup": "speedup"}
"""The columns of a drafter, and the rates in them."""


@final
@dataclass(frozen=True)
class SideRun:
    """A shorter run, of three tenths of the prompts at the first temperature.

    length: the tokens of its texts, as a multiple of the others'.
    target: settings of the target that replace those of the pair.
    """

    drafters: tuple[str, ...]
    length: int = 1
    target: Mapping[str, str] = field(default_factory=dict)


FEW = ("small_lm", "hybrid", "prompt_lookup")
PRECISIONS = {
    "float32": SideRun((*FEW, "quantized"), target={"dtype": "float32"}),
    "int8": SideRun(FEW, target={"quantize": "int8"}),
}
LONGER, BENCH = "longer", "bench"
MODEL = ("model", "dtype", "quantize")
SIDE_RUNS = {
    LONGER: SideRun(("small_lm", "small_lm 6", "small_lm until unsure"), length=3),
    **PRECISIONS,
}
SIDES = (*SIDE_RUNS, BENCH)


def entries(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Returns the settings of each drafter by its name."""
    full = {"drafter": "small_lm", "model": options.drafter, "dtype": options.dtype}
    model = full | ({"quantize": options.quantize} if options.quantize else {})
    table = {"drafter": "bigram", "counts": options.table}
    return {
        **{at_length(gamma): model | {"gamma": gamma} for gamma in GAMMAS},
        "small_lm full weights": full,
        "small_lm until unsure": model | {"policy": "confidence", "gamma": 8},
        "small_lm tree": model | {"tree": "2x1x1x1", "budget": 8, "verifier": "traversal"},
        "hybrid": {"drafter": "hybrid", "drafters": ["prompt_lookup", model]},
        "hierarchy": model | {"drafter": "hierarchy"},
        "quantized": {"drafter": "quantized"},
        **{name: {"drafter": name} for name in ("prompt_lookup", "suffix", "bigram", "unigram")},
        **({"bigram table": table} if options.table else {}),
    }


def at_length(gamma: int) -> str:
    """Returns the name of the draft model at a gamma."""
    return "small_lm" if gamma == BEST else f"small_lm {gamma}"


def pair_run(
    options: argparse.Namespace,
    name: str,
    drafters: Mapping[str, Any],
    temperature: float,
    side: SideRun | None = None,
) -> Summary:
    """Returns the comparison of a name: of plain decoding and some drafters."""
    share, length = (0.3, side.length) if side else (1, 1)
    target = {"model": options.target, "dtype": options.dtype, **(side.target if side else {})}
    named = [settings | {"name": name} for name, settings in drafters.items()]
    # Hydra takes no quoted keys.
    listed = re.sub(r'"(\w+)":', r"\1:", json.dumps(["none", *named]))
    return compared(
        Path(options.results) / name,
        *[f"drafters={listed}", f"sampling.temperature={temperature}", "protocol=decode"],
        *["pairs=false", *texts(options, target, share, length), *options.settings],
    )


def texts(
    options: argparse.Namespace, target: Mapping[str, str], share: float, length: float
) -> Iterator[str]:
    """Yields the settings of the texts that are written: a share of the prompts, a length."""
    yield "target=transformers"
    yield from (f"target.{name}={value}" for name, value in target.items())
    yield from (f"gamma={BEST}", "turns=1", "data=jsonl", f"data.path={options.prompts.absolute()}")
    yield f"data.limit={max(1, round(share * options.limit))}"
    yield f"max_new_tokens={round(length * options.tokens)}"


def beside_transformers(options: argparse.Namespace, model: Mapping[str, str]) -> dict[str, Any]:
    """Returns what a bench found of the pair, beside transformers' assisted generation.

    model: the settings of the drafter.
    """
    folder = Path(options.results).absolute() / BENCH
    if not (folder / "bench.json").is_file():
        pair = {"model": options.target, "dtype": options.dtype}
        own = [f"drafter.{name}={model[name]}" for name in MODEL if name in model]
        sys.argv = [
            *["outrider", "bench", "drafter=small_lm", *own, *texts(options, pair, 0.2, 1.5)],
            *["repeats=1", "batches=[]", f"hydra.run.dir={folder}"],
        ]
        cli.main()
    found: dict[str, Any] = json.loads((folder / "bench.json").read_text())
    return {name: value for name, value in found.items() if name != "settings"}


def by_ratio(found: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line for each two entrants of a bench, and how many times as fast one is."""
    yield from heading(["", "beside", "tokens a second", "of the other", "times as fast"], texts=2)
    speeds = found["tokens_per_second"]
    for one, other, ratio, *_ in found["ratios"]:
        times = figure(ratio and Interval(**ratio))
        yield line(one, other, f"{speeds[one]:.1f}", f"{speeds[other]:.1f}", times)


def line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def by_length(runs: Mapping[float, Summary]) -> Iterator[str]:
    """Yields a line for each temperature and gamma: Tables 2 and 4, and Figure 1 (over K)."""
    yield from heading(LENGTHS)
    for temperature, run in runs.items():
        named = {row.drafter: row for row in run.rows}
        for gamma in GAMMAS:
            row = named[at_length(gamma)]
            told, tokens = row.prediction, row.rates["block_efficiency"]
            yield line(
                *(f"{temperature:g}", str(gamma), figure(row.rates["alpha_tested"])),
                *(f"{told.cost_ratio:.2f}" if told else "", figure(row.rates["speedup"])),
                f"{told.predicted_speedup:.2f}" if told else "",
                *(figure(tokens), f"{tokens.value / (gamma + 1):.2f}" if tokens else ""),
            )


def side_by_side(runs: Mapping[str, Summary], hidden: str = r"small_lm \d+") -> Iterator[str]:
    """Yields a line for each drafter: Table 3, with tokens per call and speedup.

    runs: by what stands behind the name of each column. hidden: a pattern of drafters to leave out.
    """
    yield from heading(["drafter", *(f"{rate}{of}" for of in runs for rate in RATES)])
    for rows in zip(*(run.rows for run in runs.values()), strict=True):
        if not re.fullmatch(hidden, rows[0].drafter):
            cells = (figure(row.rates[rate]) for row in rows for rate in RATES.values())
            yield line(f"`{rows[0].drafter}`", *cells)


def by_precision(runs: Mapping[str, Summary]) -> Iterator[str]:
    """Yields a line for each precision of the target and each drafter."""
    yield from heading(["target in", "drafter", *RATES, "tokens a second"], texts=2)
    for precision, run in runs.items():
        for row in run.rows:
            cells = (figure(row.rates[rate]) for rate in (*RATES.values(), "tokens_per_second"))
            yield line(precision, f"`{row.drafter}`", *cells)


def part_of(run: Summary, like: Summary) -> Summary:
    """Returns the prompts and drafters of a run that are in another one, too."""
    shared = {*like.run.drafters}
    names = {name: it for name, it in run.run.facts["drafters"].items() if name in shared}
    kept = (it for it in run.run.measurements if it.drafter in names and it.prompt in like.prompts)
    facts = {**run.run.facts, "drafters": names}
    return Summary(replace(run.run, facts=facts, measurements=tuple(kept)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", default=PAIR[0], help="a hub id, a folder or a GGUF file")
    parser.add_argument("--drafter", default=PAIR[1], help="likewise, with the same tokenizer")
    parser.add_argument("--dtype", default="bfloat16", help="the precision of both")
    parser.add_argument("--quantize", default="int4", help="of the draft model; '' for its dtype")
    parser.add_argument("--table", help="counts of the target's texts, for a bigram drafter")
    parser.add_argument("--prompts", type=Path, default=PROMPTS, help="a JSONL file")
    parser.add_argument("--limit", type=int, default=40, help="prompts, evenly spaced")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--temperatures", type=float, nargs="+", default=(0, 1))
    parser.add_argument("--beside", nargs="*", help="names of the other drafters; all by default")
    parser.add_argument("--sides", nargs="*", choices=SIDES, default=SIDES)
    parser.add_argument("--results", default="build/pair")
    parser.add_argument("--page", type=Path, help="the page that the tables go to")
    parser.add_argument("--settings", nargs="*", default=(), help="more for outrider compare")
    options = parser.parse_args()

    drafters, first = entries(options), options.temperatures[0]
    names = options.beside or drafters
    chosen = {it: drafters[it] for it in drafters if it in (*map(at_length, GAMMAS), *names)}
    runs = {t: pair_run(options, f"T{t:g}", chosen, t) for t in options.temperatures}
    sides = {
        name: pair_run(options, name, {it: drafters[it] for it in side.drafters}, first, side)
        for name, side in SIDE_RUNS.items()
        if name in options.sides
    }
    tables = {
        "lengths": by_length(runs),
        "drafters": side_by_side({f", T = {t:g}": run for t, run in runs.items()}),
    }
    if LONGER in sides:
        tables[LONGER] = side_by_side({"": sides[LONGER]}, hidden="none")
    if precisions := {name: sides[name] for name in PRECISIONS if name in sides}:
        same = part_of(runs[first], next(iter(precisions.values())))
        tables["precisions"] = by_precision({options.dtype: same, **precisions})
    if BENCH in options.sides:
        found = beside_transformers(options, drafters["small_lm"])
        tables[BENCH] = by_ratio(found)
        if options.page:
            write_json(found, options.page, BENCH)
    for part, lines in tables.items():
        text = list(lines)
        print("\n".join(text))
        if options.page and f"<!-- {part} -->" in options.page.read_text():
            write_page(options.page, part, text)
    if options.page:
        for name, run in {**{f"T{t:g}": run for t, run in runs.items()}, **sides}.items():
            publish(run, options.page, name)
        plot = runpy.run_path(str(ROOT / "docs" / "scripts" / "gains.py"))["draw"]
        main_run = options.page.parent / "runs" / f"{options.page.stem}-T{first:g}.json"
        plot(main_run, options.page.with_name("gains.svg"))


if __name__ == "__main__":
    main()
