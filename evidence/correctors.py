"""One backbone, many correctors: DFlash with each of them, trained and compared on the same texts.

    python evidence/correctors.py --prompts questions.jsonl --page docs/drafters.md

Runs `outrider train` once for each network, all on one file of texts for as many steps, and then
`outrider compare` on the same prefixes at temperature 0 and 1. What is already in `--results` is
not done again; an unfinished training or comparison continues. Only `--timed` measures times, and
needs an idle machine.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from tiny.page_parts import write_page

from outrider.cli import main as cli
from outrider.drafters.parts.networks.correctors.corrector import CORRECTORS
from outrider.lab.runs.files import FACTS
from outrider.lab.runs.row import Row
from outrider.lab.runs.store import Run, load
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import Interval

PLAIN = "dflash"
NETWORKS: Mapping[str, Sequence[str]] = {
    PLAIN: (),
    "causal block": ("causal=true",),
    **{name: (f"corrector={name}",) for name in CORRECTORS},
    "selector, convolved": ("corrector=selector", "convolved=true"),
}
"""The options of each network's training, by the name to print."""

SAMPLINGS = ("greedy", "standard")
"""Temperature 0 and temperature 1."""

HEADINGS = ("network", "alpha", "alpha at 2", "tokens a call")
TIMED = ("cost", "speedup")


def trained(name: str, options: argparse.Namespace) -> Path:
    """Returns the folder of a network's weights; trains it first if there are none."""
    home = Path(options.results).absolute()
    out = home / "trained" / name.replace(", ", "-").replace(" ", "-")
    if not (out / "config.json").is_file():
        more = [f"recipe.options.{option}" for option in NETWORKS[name]]
        command(
            *["train", "drafter=dflash", f"target={options.target}", "sampling=standard"],
            *[f"recipe.file={home / 'texts.jsonl'}", f"recipe.states={home / 'states'}"],
            *[f"recipe.texts={options.texts}", f"recipe.schedule.epochs={options.epochs}"],
            *[f"gamma={options.gamma}", f"out={out}", f"hydra.run.dir={out}-run"],
            *more,
            *options.training,
            *options.settings,
        )
    return out


def compared(sampling: str, folders: Mapping[str, Path], options: argparse.Namespace) -> Run:
    """Returns the comparison of the networks; runs it first if it is not finished."""
    folder = Path(options.results).absolute() / f"{sampling}{'-timed' if options.timed else ''}"
    exists = (folder / FACTS).is_file()
    if not exists or not load(folder).finished:
        drafters = [
            f"{{drafter: dflash, path: {path}, name: '{name}'}}" for name, path in folders.items()
        ]
        prompts = ["data=demo"]
        if options.prompts is not None:
            prompts = ["data=jsonl", f"data.path={Path(options.prompts).absolute()}"]
        command(
            *["compare", f"drafters=[{','.join(drafters)}]", f"target={options.target}"],
            *[f"protocol={'both' if options.timed else 'overlap'}", f"gamma={options.gamma}"],
            *[f"sampling={sampling}", "turns=1", f"data.limit={options.limit}"],
            *[f"max_new_tokens={options.tokens}", f"reference={PLAIN}", *prompts],
            *[f"hydra.run.dir={folder}", f"resume={str(exists).lower()}", *options.settings],
        )
    return load(folder)


def command(*words: str) -> None:
    """Runs a command of Outrider."""
    sys.argv = ["outrider", *words]
    cli.main()


def figure(value: Interval | None) -> str:
    """Returns a figure, with its interval if it has one."""
    if value is None:
        return ""
    ends = "" if value.low is None else f" [{value.low:.3f}, {value.high:.3f}]"
    return f"{value.value:.3f}{ends}"


def lines(summary: Summary, *, timed: bool) -> Iterator[str]:
    """Yields the table of one temperature, in the order of the networks."""
    headings = [*HEADINGS, *(TIMED if timed else ())]
    yield f"| {' | '.join(headings)} |"
    yield "|---|" + "---:|" * (len(headings) - 1)
    for row in summary.rows:
        yield f"| {' | '.join([f'`{row.drafter}`', *cells(row, timed=timed)])} |"


def cells(row: Row, *, timed: bool) -> Iterator[str]:
    """Yields a network's figures."""
    yield figure(row.rates["alpha"])
    second = row.depths["alpha_at"][1]
    yield "" if second is None else f"{second:.3f}"
    yield figure(row.rates["expected_block_efficiency"])
    if timed:
        yield "" if row.prediction is None else f"{row.prediction.cost_ratio:.2f}"
        yield figure(row.rates["speedup"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--prompts", help="a JSONL file; the demo prompts by default")
    parser.add_argument("--limit", type=int, default=24, help="prompts, evenly spaced")
    parser.add_argument("--tokens", type=int, default=32, help="of each answer")
    parser.add_argument("--gamma", type=int, default=7)
    parser.add_argument("--texts", type=int, default=2000, help="to learn from")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--training", nargs="*", default=(), help="more for outrider train")
    parser.add_argument("--only", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--target", default="smollm2", help="the name of a target")
    parser.add_argument("--settings", nargs="*", default=(), help="more for both commands")
    parser.add_argument("--timed", action="store_true", help="decode too, and measure times")
    parser.add_argument("--results", default="build/correctors")
    parser.add_argument("--page", type=Path, help="the page that the tables go to")
    options = parser.parse_args()
    folders = {name: trained(name, options) for name in options.only}
    text: list[str] = []
    for temperature, sampling in enumerate(SAMPLINGS):
        summary = Summary(compared(sampling, folders, options))
        text += [f"Temperature {temperature}:", "", *lines(summary, timed=options.timed), ""]
    print("\n".join(text))
    if options.page:
        write_page(options.page, "correctors", text)


if __name__ == "__main__":
    main()
