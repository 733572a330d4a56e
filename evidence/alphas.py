"""Alpha of drafters that need no training, on the target's own texts: Leviathan's Table 3.

    python evidence/alphas.py --prompts question.jsonl --page docs/figures.md

Each temperature is a run of `outrider compare +experiment=table3`. One that is already in
`--results` is continued if it is unfinished. It counts, so that a busy machine only makes it slow.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from tiny.measured_runs import compared, figure, publish
from tiny.page_parts import heading, write_page

from outrider.lab.runs.summary import Summary

RATES = {"alpha": "alpha", "tokens a call": "expected_block_efficiency"}


def lines(runs: Mapping[int, Summary]) -> Iterator[str]:
    """Yields the table. runs: by temperature."""
    yield from heading(["drafter", *(f"{rate}, T = {t}" for t in runs for rate in RATES)])
    for rows in zip(*(run.rows for run in runs.values()), strict=True):
        cells = (figure(row.rates[rate]) for row in rows for rate in RATES.values())
        yield f"| {' | '.join([f'`{rows[0].drafter}`', *cells])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--prompts", type=Path, required=True, help="a JSONL file")
    parser.add_argument("--results", type=Path, default=Path("build/alphas"))
    parser.add_argument("--page", type=Path, help="the page that the table goes to")
    parser.add_argument("--settings", nargs="*", default=(), help="more for outrider compare")
    options = parser.parse_args()
    experiment = ["+experiment=table3", f"data.path={options.prompts.absolute()}"]
    runs = {
        temperature: compared(
            options.results / f"T{temperature}",
            *[*experiment, "hydra.mode=RUN", f"sampling.temperature={temperature}"],
            *options.settings,
        )
        for temperature in (0, 1)
    }
    text = list(lines(runs))
    print("\n".join(text))
    if options.page:
        write_page(options.page, "alphas", text)
        for temperature, run in runs.items():
            publish(run, options.page, f"T{temperature}")


if __name__ == "__main__":
    main()
