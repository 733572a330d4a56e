"""What weights of sixteen and of eight bits cost and save: passes and perplexity.

    python evidence/stored_weights.py --prompts question.jsonl --tokens 20000

Everything is held to float32. The forms take turns at each pass, so that a busy machine slows all
of them alike. The exit status is 1 if a pass of 8 rows takes 1.3 times as long as one of a single
row, or one row of bfloat16 more than .6 of float32's time.
"""

import argparse
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter

import torch
from rich.progress import track

from outrider import Target
from outrider.data import jsonl as data
from outrider.plugins.parts import make
from outrider.targets.passes.engine import run_pass
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import PassInput

FORMS = {
    "float32": {"dtype": "float32"},
    "bfloat16": {"dtype": "bfloat16"},
    "int8": {"quantize": "int8"},
}
ROWS = (1, 4, 8, 16)
PART = 512
"""Tokens that are read at once for the perplexity."""

KNOWN = 100
"""Tokens in the cache of a pass that is timed."""

MOST_ROWS, MOST_HALF = 1.3, 0.6
"""The most that 8 rows may take, in passes of one row, and one row of bfloat16, in float32's."""


def pass_times(targets: Mapping[str, Target], repeats: int) -> dict[tuple[str, int], float]:
    """Returns the median milliseconds of a pass, by form and number of rows."""
    ids = torch.arange(KNOWN)[None] + 1000
    caches = {form: GrowingCache() for form in targets}
    for form, target in targets.items():
        run_pass(target.model, caches[form], PassInput(ids, 1))
    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(repeats):
        for rows in ROWS:
            for form, target in targets.items():
                with target.computing():
                    began = perf_counter()
                    run_pass(target.model, caches[form], PassInput(ids[:, :rows], rows))
                    times.setdefault((form, rows), []).append(1000 * (perf_counter() - began))
                caches[form].crop(-rows)
    return {key: statistics.median(values) for key, values in times.items()}


def surprise(target: Target, text: Sequence[int]) -> float:
    """Returns the sum of -log p over a text's tokens but the first, in parts of `PART`."""
    total = 0.0
    for first in range(0, len(text), PART):
        ids = torch.tensor([text[first : first + PART]])
        logits = run_pass(target.model, GrowingCache(), PassInput(ids, ids.shape[1])).logits[0]
        log_probs = logits[:-1].float().log_softmax(-1)
        total -= float(log_probs.gather(-1, ids[0, 1:, None]).double().sum())
    return total


def print_times(times: Mapping[tuple[str, int], float]) -> bool:
    """Prints the table of passes, and returns whether it is as fast as it should be."""
    print(
        "| weights | one row, beside float32 | " + " | ".join(f"{rows} rows" for rows in ROWS[1:])
    )
    for form in FORMS:
        ratios = [times[form, rows] / times[form, 1] for rows in ROWS[1:]]
        share = times[form, 1] / times["float32", 1]
        print(f"| {form} | {share:.2f} | " + " | ".join(f"{ratio:.2f}" for ratio in ratios))
    half = times["bfloat16", 1] / times["float32", 1]
    rows = max(times[form, 8] / times[form, 1] for form in ("float32", "bfloat16"))
    return half <= MOST_HALF and rows <= MOST_ROWS


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompts", help="a JSONL data set; defaults to the demo prompts")
    parser.add_argument("--tokens", type=int, default=20000, help="to read for the perplexity")
    parser.add_argument("--repeats", type=int, default=15, help="passes to time, of each size")
    options = parser.parse_args()
    show = partial(track, disable=not sys.stderr.isatty())
    targets = {form: make("target", "smollm2", **settings) for form, settings in FORMS.items()}
    is_fast = print_times(pass_times(targets, options.repeats))
    everything = data.jsonl(options.prompts) if options.prompts else data.demo()
    exact = targets["float32"]
    read: list[list[int]] = []
    for prompt in everything:
        if sum(map(len, read)) < options.tokens:
            read.append(exact.encode("\n".join(prompt.turns), chat=False))
    tokens = sum(len(text) - -(-len(text) // PART) for text in read)
    print(f"| weights | perplexity of {tokens:,} tokens")
    for form, target in targets.items():
        perplexity = math.exp(sum(surprise(target, text) for text in show(read, form)) / tokens)
        print(f"| {form} | {perplexity:.4f}", flush=True)
    sys.exit(not is_fast)


if __name__ == "__main__":
    main()
