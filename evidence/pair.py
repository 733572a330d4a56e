"""A draft model of a target's own family: Leviathan's Tables 2 to 4 and Chen's Figure 1, on a pair.

    python evidence/pair.py --page docs/pair.md

One `outrider compare` at each temperature holds everything: `small_lm` at each gamma, and the other
drafters beside it, all against the same plain decoding. A run that is already in `--results` is
continued if it is unfinished. It needs an idle machine, since it measures times.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from tiny.page_parts import heading, write_page

from outrider.cli import main as cli
from outrider.lab.runs.files import FACTS
from outrider.lab.runs.row import Row
from outrider.lab.runs.store import Run, load
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import Interval

PAIR = ("Qwen/Qwen2.5-Coder-1.5B-Instruct", "Qwen/Qwen2.5-Coder-0.5B-Instruct")
PROMPTS = Path(__file__).parent / "pair_prompts.jsonl"
GAMMAS = (2, 4, 6)
BEST = 4
"""The gamma of the drafters that are compared side by side."""

LENGTHS = ("T", "gamma", "alpha", "c", "speedup", "predicted", "tokens a call", "of gamma + 1")


def entries(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Returns the settings of each drafter by its name."""
    full = {"drafter": "small_lm", "model": options.drafter, "dtype": options.dtype}
    model = full | ({"quantize": options.quantize} if options.quantize else {})
    table = {"drafter": "bigram", "counts": options.table}
    beside = {
        "small_lm full weights": full,
        "small_lm until unsure": model | {"policy": "confidence", "gamma": 8},
        "small_lm tree": model | {"tree": "2x1x1x1", "budget": 8, "verifier": "traversal"},
        "hybrid": {"drafter": "hybrid", "drafters": ["prompt_lookup", model]},
        "hierarchy": model | {"drafter": "hierarchy"},
        "quantized": {"drafter": "quantized"},
        **{name: {"drafter": name} for name in ("prompt_lookup", "suffix", "bigram", "unigram")},
        **({"bigram table": table} if options.table else {}),
    }
    lengths = {at_length(gamma): model | {"gamma": gamma} for gamma in options.gammas}
    return lengths | {name: beside[name] for name in options.beside or beside}


def at_length(gamma: int) -> str:
    """Returns the name of the draft model at a gamma."""
    return "small_lm" if gamma == BEST else f"small_lm {gamma}"


def compared(temperature: float, options: argparse.Namespace) -> Run:
    """Returns the comparison at a temperature; runs it first if it is not finished."""
    folder = Path(options.results).absolute() / f"T{temperature:g}"
    exists = (folder / FACTS).is_file()
    if not exists or not load(folder).finished:
        named = [settings | {"name": name} for name, settings in entries(options).items()]
        # Hydra takes no quoted keys.
        drafters = re.sub(r'"(\w+)":', r"\1:", json.dumps(["none", *named]))
        sys.argv = [
            *["outrider", "compare", f"drafters={drafters}"],
            *["target=transformers", f"target.model={options.target}", f"gamma={BEST}"],
            *[f"target.dtype={options.dtype}", f"sampling.temperature={temperature}"],
            *["data=jsonl", f"data.path={options.prompts.absolute()}", "turns=1"],
            *[f"data.limit={options.limit}", f"max_new_tokens={options.tokens}", "pairs=false"],
            *[f"hydra.run.dir={folder}", f"resume={str(exists).lower()}", "protocol=decode"],
            *options.settings,
        ]
        cli.main()
    return load(folder)


def figure(value: Interval | None) -> str:
    """Returns a figure, with its interval if it has one."""
    if value is None:
        return ""
    ends = "" if value.low is None else f" [{value.low:.2f}, {value.high:.2f}]"
    return f"{value.value:.2f}{ends}"


def by_length(rows: Mapping[float, Mapping[str, Row]], gammas: Sequence[int]) -> Iterator[str]:
    """Yields a line for each temperature and gamma: Tables 2 and 4, and Figure 1 (over K)."""
    yield from heading(LENGTHS)
    for temperature, named in rows.items():
        for gamma in gammas:
            row = named[at_length(gamma)]
            told, tokens = row.prediction, row.rates["block_efficiency"]
            cells = [
                *(f"{temperature:g}", str(gamma), figure(row.rates["alpha_tested"])),
                *(f"{told.cost_ratio:.2f}" if told else "", figure(row.rates["speedup"])),
                f"{told.predicted_speedup:.2f}" if told else "",
                *(figure(tokens), f"{tokens.value / (gamma + 1):.2f}" if tokens else ""),
            ]
            yield f"| {' | '.join(cells)} |"


def side_by_side(rows: Mapping[float, Mapping[str, Row]]) -> Iterator[str]:
    """Yields a line for each drafter of gamma `BEST`: Table 3, with tokens a call and speedup."""
    rates = {"alpha": "alpha_tested", "tokens a call": "block_efficiency", "speedup": "speedup"}
    yield from heading(["drafter", *(f"{rate}, T = {t:g}" for t in rows for rate in rates)])
    for name in next(iter(rows.values())):
        if re.fullmatch(r"small_lm \d+", name):
            continue
        cells = [
            figure(named[name].rates[rate]) for named in rows.values() for rate in rates.values()
        ]
        yield f"| `{name}` | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", default=PAIR[0], help="a hub id, a folder or a GGUF file")
    parser.add_argument("--drafter", default=PAIR[1], help="likewise, with the same tokenizer")
    parser.add_argument("--dtype", default="bfloat16", help="the precision of both")
    parser.add_argument("--quantize", default="int4", help="of the draft model; '' for its dtype")
    parser.add_argument("--table", help="counts of the target's texts, for a bigram drafter")
    parser.add_argument("--prompts", type=Path, default=PROMPTS, help="a JSONL file")
    parser.add_argument("--limit", type=int, default=40, help="prompts, evenly spaced")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--temperatures", type=float, nargs="+", default=(0, 1))
    parser.add_argument("--gammas", type=int, nargs="+", default=GAMMAS)
    parser.add_argument("--beside", nargs="*", help="names of the other drafters; all by default")
    parser.add_argument("--results", default="build/pair")
    parser.add_argument("--page", type=Path, help="the page that the tables go to")
    parser.add_argument("--settings", nargs="*", default=(), help="more for outrider compare")
    options = parser.parse_args()
    runs = {t: Summary(compared(t, options)) for t in options.temperatures}
    rows = {t: {row.drafter: row for row in summary.rows} for t, summary in runs.items()}
    for part, lines in (
        ("lengths", by_length(rows, options.gammas)),
        ("drafters", side_by_side(rows)),
    ):
        text = list(lines)
        print("\n".join(text))
        if options.page:
            write_page(options.page, part, text)


if __name__ == "__main__":
    main()
