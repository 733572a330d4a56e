"""The same drafter entered three times: how `outrider compare` ranks equal speeds.

python evidence/same_drafter.py --drafter bigram --repeats 5

On an idle machine, the three speedups differ by less than 3%, and the interval of each ratio of two
of them contains 1. Otherwise the exit status is 1.
"""

import argparse
import itertools
import sys
from collections.abc import Mapping, Sequence

from outrider.extras.datasets.jsonl import demo, jsonl
from outrider.lab.measuring.compare import fit, measure, questions
from outrider.lab.measuring.measurement import Decoding
from outrider.lab.measuring.variants import Settings, Variant
from outrider.lab.statistics.intervals import Statistic, quotient, ratio
from outrider.lab.statistics.timing_checks import DRIFT, drift
from outrider.plugins.registry import make

NAMES = ("first", "second", "third")
SPREAD = 0.03
"""The most that the largest speedup may be above the smallest, as a share of it."""


def decoded(options: argparse.Namespace) -> dict[str, list[Decoding]]:
    """Returns the texts of each variant, a text for each turn of each prompt."""
    target = make("target", options.target)
    variants = {
        name: Variant(make("drafter", options.drafter), make("verifier", "token")) for name in NAMES
    }
    settings = Settings(max_new_tokens=options.tokens, repeats=options.repeats)
    prompts = jsonl(options.prompts, options.limit) if options.prompts else demo(options.limit)
    fit(target, variants)
    all_questions = questions(target, prompts, settings, chat=True, answers=False)
    texts: dict[str, list[Decoding]] = {name: [] for name in NAMES}
    for measurement in measure(target, variants, all_questions, settings, protocol="decode"):
        assert measurement.decoding is not None
        texts[measurement.drafter].append(measurement.decoding)
    return texts


def seconds_a_token(texts: Sequence[Decoding]) -> Statistic:
    """Returns the seconds a token, as a statistic over texts."""
    return ratio([text.seconds for text in texts], [text.counts.emitted for text in texts])


def report(texts: Mapping[str, Sequence[Decoding]]) -> bool:
    """Prints the speedups and the ratios of each two; returns whether all are as they should be."""
    speedups = {}
    for name, decodings in texts.items():
        plain = sum(text.plain_seconds * text.counts.emitted for text in decodings)
        speedups[name] = plain / sum(text.seconds for text in decodings)
        print(f"{name}: {speedups[name]:.3f} times as fast as plain decoding")
    hold = True
    for one, other in itertools.combinations(texts, 2):
        gap = quotient(seconds_a_token(texts[other]), seconds_a_token(texts[one]))
        assert gap is not None
        if gap.low is None or gap.high is None:
            print(f"{one} / {other}: {gap.value:.3f}, no interval")
            continue
        holds = gap.low <= 1 <= gap.high
        hold &= holds
        verdict = "holds 1" if holds else "DOES NOT HOLD 1"
        print(f"{one} / {other}: {gap.value:.3f} [{gap.low:.3f}, {gap.high:.3f}] {verdict}")
    spread = max(speedups.values()) / min(speedups.values()) - 1
    print(f"spread {100 * spread:.1f}% (at most {100 * SPREAD:g}%)")
    drifted = drift(texts[NAMES[0]])
    if drifted >= DRIFT:
        print(f"plain decoding drifts by {100 * (drifted - 1):.0f}%: the machine is not quiet")
    return hold and spread < SPREAD


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drafter", default="bigram")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--limit", type=int, help="prompts; all by default")
    parser.add_argument("--prompts", help="a JSONL file; the demo prompts by default")
    parser.add_argument("--target", default="smollm2", help="a name, a folder or a hub id")
    sys.exit(not report(decoded(parser.parse_args())))


if __name__ == "__main__":
    main()
