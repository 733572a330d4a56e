"""What an audit says of engines with a fault, and of engines that only round.

python tests/tiny/audit_faults.py --clean 200 --nulls 300
"""

import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from outrider.extras.audit.audit import Auditor
from outrider.extras.audit.client import Request
from outrider.extras.audit.expected import Expected, FromLogprobs, FromTarget
from outrider.extras.audit.result import Result
from outrider.targets.tabular import TabularTarget
from tiny.faulty_engine import FAULTS, UNSEEN, FaultyEngine
from tiny.rounded_engine import Chain, RoundedEngine

TARGET = TabularTarget(8, order=2, seed=3, sharpness=1.2)
PROMPTS = [Request((1, 2), 24), Request((3,), 24)]

FIRST = 100
"""The first seed: the plan of an audit was chosen with smaller ones in view."""


SOURCES = ("target", "log-probabilities", "baseline")


def audited(case: tuple[str | None, str, int], requests: int) -> Result:
    fault, source, seed = case
    expected: dict[str, Expected] = {
        "target": FromTarget(TARGET),
        "log-probabilities": FromLogprobs(),
    }
    other = FaultyEngine(TARGET, None, seed + 10**6) if source == "baseline" else None
    engine = FaultyEngine(TARGET, fault, seed)
    return Auditor(engine, PROMPTS, expected.get(source), other).run(requests)


def null(seed: int) -> tuple[str, Result]:
    """Returns the settings of an engine without a fault, drawn at random, and its audit."""
    draws = np.random.default_rng([7, seed])
    size = int(draws.choice([8, 64, 1000, 49152], p=[0.4, 0.35, 0.2, 0.05]))
    chain = Chain(size, float(draws.uniform(1, 3 if size < 1000 else 5)), seed)
    dtype = str(draws.choice(["float32", "bfloat16", "int8"], p=[0.2, 0.5, 0.3]))
    noise = float(draws.choice([0, 0.02, 0.05, 0.1])) * (dtype != "float32" or seed % 2)
    race, always = bool(draws.random() < 0.5), bool(draws.random() < 0.5)
    source = str(draws.choice([*SOURCES, "both"], p=[0.5, 0.15, 0.2, 0.15]))
    names = source == "log-probabilities" and seed % 2 == 0
    make = partial(RoundedEngine, chain, dtype, noise, always, race, names=names)
    expected: Expected | None = None if source == "baseline" else FromTarget(chain)
    expected = FromLogprobs() if source == "log-probabilities" else expected
    other = make(seed=2 * seed + 1) if source in ("baseline", "both") else None
    length, most = (24, 700) if size < 1000 else (12, 160)
    prompts = [Request((1, 2), length), Request((3,), length)]
    result = Auditor(make(seed=2 * seed), prompts, expected, other).run(
        int(draws.integers(100, most))
    )
    return f"{size} {dtype} {noise} {'race' if race else 'inverse'} {source}", result


def summary(results: Iterable[Result]) -> str:
    found = list(results)
    verdicts = Counter(result.verdict for result in found)
    growths = [each.growth for result in found for each in result.findings]
    most = max(growth for growth in growths if growth is not None)
    suspected = sum(result.suspected for result in found)
    return f"{dict(verdicts)}, suspected {suspected}, most evidence e^{most:.1f}"


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--clean", type=int, default=200, help="audits of an engine without faults")
    parser.add_argument("--nulls", type=int, default=300, help="audits of engines that round")
    parser.add_argument("--first", type=int, default=0, help="the first of them, to go on")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3, help="audits of each fault")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.workers) as pool:
        audit = partial(audited, requests=options.requests)
        for fault, source in product((*FAULTS, *UNSEEN), SOURCES):
            if not options.seeds:
                break
            cases = [(fault, source, seed) for seed in range(FIRST, FIRST + options.seeds)]
            results = list(pool.map(audit, cases))
            found = sum(result.verdict == "broken" for result in results)
            most = max(result.requests for result in results)
            print(f"{fault}; {source}: {found} of {len(results)}, within {most}", flush=True)
        clean = pool.map(audit, [(None, "target", 1000 + seed) for seed in range(options.clean)])
        print("without a fault:", summary([*clean]) if options.clean else "-", flush=True)
        nulls, seeds = [], range(options.first, options.nulls)
        for seed, (name, result) in zip(seeds, pool.map(null, seeds), strict=True):
            nulls.append(result)
            print(seed, name, f"({result.requests} requests)", summary([result]), flush=True)
        print("rounded:", summary(nulls) if nulls else "-")


if __name__ == "__main__":
    main()
