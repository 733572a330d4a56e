"""One backbone, many correctors: DFlash with each of them, trained and compared on the same texts.

    python evidence/correctors.py --prompts questions.jsonl --timed 8

Runs `outrider train` for the backbone, and then once for each network, which begins with it, all on
one file of texts for as many steps; then `outrider compare` on the same prefixes at temperature 0
and 1. With `--timed`, some prompts are decoded too, which needs an idle machine, or one thread and
`--processor-time`. With `--calibration`, DSpark's confidence head is calibrated on other prompts
and ends the drafts of one more row. What is already in `--results` is not done again; an unfinished
training or comparison continues.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

PROCESSOR_TIME = "--processor-time"
if PROCESSOR_TIME in sys.argv:  # before Outrider's modules take their clock
    time.perf_counter = time.process_time

import pages
from pages import compared, heading, write_page

from outrider.cli import main as cli
from outrider.drafters.dflash.corrector import CORRECTORS
from outrider.lab.runs.row import Row
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.pairs import Pair

PLAIN, BACKBONE, DDTREE, DSPARK = "dflash", "backbone", "ddtree", "dspark"
NETWORKS: Mapping[str, Sequence[str]] = {
    PLAIN: (),
    "causal block": ("causal=true",),
    **{name: (f"corrector={name}",) for name in CORRECTORS},
    DSPARK: ("corrector=markov", "confident=true"),
    "selector, convolved": ("corrector=selector", "convolved=true"),
}
"""The options of each network's training, by the name to print."""

TRAINING = (
    *("recipe.vocabulary=4096", "recipe.options.block=6", "recipe.options.decoders=1"),
    *("recipe.options.rank=64", "recipe.schedule.batch=4", "recipe.schedule.rate=0.002"),
    "recipe.schedule.warmup=20",
)
"""Networks of a size that a core trains in some three minutes each."""
SETTINGS = ("target.dtype=bfloat16",)

SAMPLINGS = ("greedy", "standard")
"""Temperature 0 and temperature 1."""

HEADINGS = ("network", "alpha", "above `dflash`", "alpha at 2", "tokens per call")
figure = partial(pages.figure, digits=3)
TIMED = ("tokens per call, decoded", "drafted a call", "cost", "predicted speedup", "speedup")


def trained(name: str, options: argparse.Namespace) -> Path:
    """Returns the folder of a network's weights; trains it first if there are none."""
    home = Path(options.results).absolute()
    out = home / "trained" / name.replace(", ", "-").replace(" ", "-")
    if not (out / "config.json").is_file():
        more, epochs = NETWORKS.get(name, ()), options.epochs
        if name == BACKBONE:
            epochs = options.backbone
        elif options.backbone:
            more = (*more, f"backbone={trained(BACKBONE, options)}")
        command(
            *["train", "drafter=dflash", f"target={options.target}", "sampling=standard"],
            *[f"recipe.file={home / 'texts.jsonl'}", f"recipe.states={home / 'states'}"],
            *[f"recipe.texts={options.texts}", f"recipe.schedule.epochs={epochs}"],
            *[f"gamma={options.gamma}", f"out={out}", f"hydra.run.dir={out}-run"],
            *[f"recipe.options.{option}" for option in more],
            *options.training,
            *options.settings,
        )
    return out


def calibrated(options: argparse.Namespace) -> Path:
    """Returns the folder of DSpark's weights with a calibrated head; calibrates it if need be."""
    out = trained(DSPARK, options).with_name("dspark-calibrated")
    if not (out / "calibration.json").is_file():
        command(
            *["train", "recipe=calibration", "drafter=dflash", "drafter.confidence=0"],
            *[f"drafter.path={trained(DSPARK, options)}", f"target={options.target}"],
            *["data=jsonl", f"data.path={Path(options.calibration).absolute()}"],
            *["sampling=standard", f"gamma={options.gamma}", f"max_new_tokens={options.tokens}"],
            *[f"out={out}", f"hydra.run.dir={out}-run", *options.settings],
        )
    return out


def networks(options: argparse.Namespace) -> list[str]:
    """Returns the drafters to compare, all of them trained."""
    made = [drafter(name, trained(name, options)) for name in options.only]
    if options.calibration:
        until = f"confidence: {options.confidence}"
        made.append(drafter(f"{DSPARK} until unsure", calibrated(options), until))
    return made


def drafter(name: str, path: Path, more: str = "") -> str:
    """Returns a drafter of a comparison. more: of its settings."""
    return f"{{drafter: dflash, path: {path}, name: '{name}'{', ' if more else ''}{more}}}"


def run(
    name: str, drafters: Sequence[str], protocol: str, limit: int, options: argparse.Namespace
) -> Summary:
    """Returns a comparison. limit: the number of prompts."""
    prompts = ["data=demo"]
    if options.prompts is not None:
        prompts = ["data=jsonl", f"data.path={Path(options.prompts).absolute()}"]
    return compared(
        Path(options.results) / name,
        *[f"drafters=[{','.join(drafters)}]", f"target={options.target}"],
        *[f"protocol={protocol}", f"gamma={options.gamma}", f"reference={PLAIN}"],
        *[f"sampling={name.partition('-')[0]}", "turns=1", f"data.limit={limit}"],
        *[f"max_new_tokens={options.tokens}", *prompts, *options.settings],
    )


def command(*words: str) -> None:
    """Runs a command of Outrider."""
    sys.argv = ["outrider", *words]
    cli.main()


def lines(along: Summary, decoding: Summary | None) -> Iterator[str]:
    """Yields the table of one temperature, in the order of the networks.

    along, decoding: the comparison along the target's texts, and that of decoding.
    """
    yield from heading([*HEADINGS, *(() if decoding is None else TIMED)])
    by_name = {row.drafter: row for row in along.rows}
    pairs = {pair.other: pair.opposite for pair in along.pairs if pair.rate == "alpha"}
    timed = {} if decoding is None else {row.drafter: row for row in decoding.rows}
    for name in [*by_name, *(name for name in timed if name not in by_name)]:
        cells = [f"`{name}`", *along_cells(by_name.get(name), pairs.get(name))]
        yield f"| {' | '.join([*cells, *(timed_cells(timed[name]) if timed else ())])} |"


def along_cells(row: Row | None, pair: Pair | None) -> Iterator[str]:
    """Yields a network's figures along the target's texts; trees have none.

    pair: its difference in alpha from DFlash, with a star if that is more than chance.
    """
    yield figure(row and row.rates["alpha"])
    yield figure(pair and pair.difference) + ("*" if pair and pair.significant else "")
    second = row and row.depths["alpha_at"][1]
    yield "" if second is None else f"{second:.3f}"
    yield figure(row and row.rates["expected_block_efficiency"])


def timed_cells(row: Row) -> Iterator[str]:
    """Yields a network's figures of decoding."""
    yield figure(row.rates["block_efficiency"])
    yield f"{row.counts.drafted / row.counts.rounds:.1f}" if row.counts else ""
    theory = row.prediction
    yield "" if theory is None else f"{theory.cost_ratio:.2f}"
    is_chain = row.ranks is None  # Theorem 3.8 is about chains
    yield f"{theory.predicted_speedup:.2f}" if theory is not None and is_chain else ""
    yield figure(row.rates["speedup"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--prompts", help="a JSONL file; the demo prompts by default")
    parser.add_argument("--limit", type=int, default=24, help="prompts, evenly spaced")
    parser.add_argument("--timed", type=int, default=0, help="prompts that are decoded and timed")
    more = "count the processor's time, on a machine that is not idle; with one thread alone"
    parser.add_argument(PROCESSOR_TIME, action="store_true", help=more)
    parser.add_argument("--tokens", type=int, default=32, help="of each answer")
    parser.add_argument("--gamma", type=int, default=5)
    parser.add_argument("--tree", type=int, default=8, help="the width of DFlash's tree")
    parser.add_argument("--budget", type=int, default=16, help="the nodes of that tree")
    parser.add_argument("--texts", type=int, default=480, help="to learn from")
    parser.add_argument("--backbone", type=int, default=4, help="epochs of what all begin with")
    parser.add_argument("--epochs", type=int, default=2, help="of each network")
    parser.add_argument("--training", nargs="*", default=TRAINING, help="of outrider train")
    parser.add_argument("--calibration", help="a JSONL file of prompts to calibrate DSpark on")
    parser.add_argument("--confidence", type=float, default=0.1, help="below which it stops")
    parser.add_argument("--only", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--target", default="smollm2", help="the name of a target")
    parser.add_argument("--settings", nargs="*", default=SETTINGS, help="of both commands")
    parser.add_argument("--results", default="build/correctors")
    parser.add_argument("--page", type=Path, help="the page that the tables go to")
    options = parser.parse_args()
    drafters = networks(options)
    tree = f"tree: 'dynamic:{options.tree}', verifier: candidates, budget: {options.budget}"
    with_tree = [*drafters, drafter(DDTREE, trained(PLAIN, options), tree)]
    text: list[str] = []
    for temperature, sampling in enumerate(SAMPLINGS):
        along, decoding = run(sampling, drafters, "overlap", options.limit, options), None
        if options.timed:
            name = f"{sampling}-decoded"
            decoding = run(name, with_tree, "decode", options.timed, options)
        text += [f"Temperature {temperature}:", "", *lines(along, decoding), ""]
    print("\n".join(text))
    if options.page:
        write_page(options.page, "correctors", text)


if __name__ == "__main__":
    main()
