"""A draft model of a target's own family: Leviathan's Tables 2 to 4 and Chen's Figure 1, on a pair.

    python evidence/pair.py --prompts questions.jsonl --page docs/pair.md

Runs `outrider compare` at temperature 0 and 1 for each gamma, with `small_lm` alone, and once with
all drafters beside it, which is Table 3. A run that is already in `--results` is continued if it is
unfinished. It needs an idle machine, since it measures times.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from tiny.page_parts import write_page

from outrider.cli import main as cli
from outrider.lab.runs.files import FACTS
from outrider.lab.runs.store import Run, load
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import Interval

PAIR = ("Qwen/Qwen2.5-Coder-1.5B-Instruct", "Qwen/Qwen2.5-Coder-0.5B-Instruct")
GAMMAS = (1, 2, 3, 4, 5, 7, 10)

OTHERS = ("prompt_lookup", "suffix", "bigram", "unigram", "quantized")
"""The drafters beside `small_lm` that need no weights."""

SPEED = ("T", "gamma", "alpha", "c", "speedup", "predicted", "tokens a call", "of gamma + 1")


def compared(name: str, drafters: Sequence[str], options: argparse.Namespace, *more: str) -> Run:
    """Returns a comparison; runs it first if it is not finished.

    name: that of its folder.
    """
    folder = Path(options.results).absolute() / name
    exists = (folder / FACTS).is_file()
    if not exists or not load(folder).finished:
        prompts = options.prompts and Path(options.prompts).absolute()
        sys.argv = [
            *["outrider", "compare", f"drafters=[{','.join(drafters)}]", "target=transformers"],
            *[f"target.model={options.target}", f"target.dtype={options.dtype}", "turns=1"],
            *[f"data.limit={options.limit}", f"max_new_tokens={options.tokens}", "pairs=false"],
            *(["data=jsonl", f"data.path={prompts}"] if prompts else ["data=demo"]),
            *[f"hydra.run.dir={folder}", f"resume={str(exists).lower()}", "protocol=decode"],
            *[*more, *options.settings],
        ]
        cli.main()
    return load(folder)


def small_lm(options: argparse.Namespace) -> str:
    """Returns the settings of the draft model, which has the target's precision."""
    quantize = f", quantize: {options.quantize}" if options.quantize else ""
    return f"{{drafter: small_lm, model: {options.drafter}, dtype: {options.dtype}{quantize}}}"


def figure(value: Interval | None) -> str:
    """Returns a figure, with its interval if it has one."""
    if value is None:
        return ""
    ends = "" if value.low is None else f" [{value.low:.2f}, {value.high:.2f}]"
    return f"{value.value:.2f}{ends}"


def by_length(options: argparse.Namespace) -> Iterator[str]:
    """Yields a line for each temperature and gamma: Tables 2 and 4, and Figure 1 (over K)."""
    yield from heading(SPEED)
    for temperature in options.temperatures:
        for gamma in options.gammas:
            sizes = (f"gamma={gamma}", f"sampling.temperature={temperature}")
            name = f"T{temperature:g}-gamma{gamma}"
            (row,) = Summary(compared(name, [small_lm(options)], options, *sizes)).rows
            told = row.prediction
            tokens = row.rates["block_efficiency"]
            cells = [
                *(f"{temperature:g}", str(gamma), figure(row.rates["alpha_tested"])),
                *(f"{told.cost_ratio:.2f}" if told else "", figure(row.rates["speedup"])),
                f"{told.predicted_speedup:.2f}" if told else "",
                *(figure(tokens), f"{tokens.value / (gamma + 1):.2f}" if tokens else ""),
            ]
            yield f"| {' | '.join(cells)} |"


def side_by_side(options: argparse.Namespace) -> Iterator[str]:
    """Yields a line for each drafter: Table 3, with the speedup beside alpha."""
    model = small_lm(options)
    mixed = f"{{drafter: hybrid, drafters: [prompt_lookup, {model}]}}"
    faster = model.replace("drafter: small_lm", "drafter: hierarchy")
    rows = []
    for temperature in options.temperatures:
        more = ("gamma=4", f"sampling.temperature={temperature}")
        drafters = ["none", *OTHERS, model, mixed, faster]
        run = compared(f"T{temperature:g}-drafters", drafters, options, *more)
        rows.append({row.drafter: row.rates for row in Summary(run).rows})
    rates = [f"{rate}, T = {t:g}" for t in options.temperatures for rate in ("alpha", "speedup")]
    yield from heading(["drafter", *rates])
    for name in rows[0]:
        cells = [
            figure(rates[name][rate]) for rates in rows for rate in ("alpha_tested", "speedup")
        ]
        yield f"| `{name}` | {' | '.join(cells)} |"


def heading(names: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(names)} |", "|---|" + "---:|" * (len(names) - 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", default=PAIR[0], help="a hub id, a folder or a GGUF file")
    parser.add_argument("--drafter", default=PAIR[1], help="likewise, with the same tokenizer")
    parser.add_argument("--dtype", default="bfloat16", help="the precision of both")
    parser.add_argument("--quantize", help="int8 or int4, of the draft model")
    parser.add_argument("--prompts", help="a JSONL file; the demo prompts by default")
    parser.add_argument("--limit", type=int, default=40, help="prompts, evenly spaced")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--temperatures", type=float, nargs="+", default=(0, 1))
    parser.add_argument("--gammas", type=int, nargs="+", default=GAMMAS)
    parser.add_argument("--results", default="build/pair")
    parser.add_argument("--page", type=Path, help="the page that the tables go to")
    parser.add_argument("--settings", nargs="*", default=(), help="more for outrider compare")
    options = parser.parse_args()
    for part, lines in (("lengths", by_length(options)), ("drafters", side_by_side(options))):
        text = list(lines)
        print("\n".join(text))
        if options.page:
            write_page(options.page, part, text)


if __name__ == "__main__":
    main()
