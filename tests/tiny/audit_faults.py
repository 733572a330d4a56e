"""Which faults of an engine an audit finds, after how many requests, and how often it finds none.

python tests/tiny/audit_faults.py --clean 200
"""

import sys
from argparse import ArgumentParser
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from outrider.extras.audit.audit import Auditor
from outrider.extras.audit.client import Request
from outrider.extras.audit.expected import FromTarget
from outrider.extras.audit.result import Result
from outrider.targets.tabular import TabularTarget
from tiny.faulty_engine import FAULTS, FaultyEngine

TARGET = TabularTarget(8, order=2, seed=3, sharpness=1.2)
PROMPTS = [Request((1, 2), 24), Request((3,), 24)]

FIRST = 100
"""The first seed: the plan of an audit was chosen with smaller ones in view."""


def audited(fault: str | None, requests: int, seed: int) -> Result:
    engine = FaultyEngine(TARGET, fault, seed)
    return Auditor(engine, PROMPTS, FromTarget(TARGET)).run(requests)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--clean", type=int, default=200, help="audits of an engine without faults")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3, help="audits of each fault")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.workers) as pool:
        for fault in FAULTS:
            audit = partial(audited, fault, options.requests)
            results = list(pool.map(audit, range(FIRST, FIRST + options.seeds)))
            found = sum(result.verdict == "broken" for result in results)
            most = max(result.requests for result in results)
            print(f"{fault:36} found {found} of {len(results)}, within {most} requests", flush=True)
        audits = pool.map(
            partial(audited, None, options.requests), range(1000, 1000 + options.clean)
        )
        clean = list(track(audits, "without a fault", total=options.clean))
    verdicts = [result.verdict for result in clean]
    print({verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))})
    growths = sorted(max(each.growth for each in result.findings) for result in clean)
    print("the most evidence:", *(f"e^{growth:.1f}" for growth in growths[-5:]))


if __name__ == "__main__":
    main()
