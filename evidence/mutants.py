"""Which mutants the kit and the tests find in rules, pen, chance, loop, trees and policies.

Of the mutants that cosmic-ray makes, a fixed sample is judged. Not all of them matter: one may
draft worse, or compute the same. Each is loaded in a process of its own, forked from one that has
torch. The kit's checks of the built-in parts come first. The tests that mirror the file run on
what survives them. That the checks find each fault that breaks the law of a text is shown by
tests/testing.

python evidence/mutants.py --only verifiers/k_seq.py --every 1 --results mutants.jsonl
"""

import argparse
import ast
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

from mutation import ROOT, RULE_FILES, Finder, Mutant, sampled

NEEDED = ("torch", "transformers", "tokenizers", "scipy.optimize", "hydra", "rich", "pytest")
"""Modules that are imported once, before any process is forked."""
SECONDS = {"kit": 180, "tests": 300}
"""The most processor time of a mutant; one that takes longer is killed, and so found."""
MEMORY = 16 << 30
"""The most bytes of address space of a mutant."""
NOT_BUILT = "not built"
PENALTIES = {
    "repetition_penalty": 1.3,
    "presence_penalty": 0.4,
    "frequency_penalty": 0.2,
    "logit_bias": {2: -0.5, 3: 0.7},
    "bad_words": [[1, 1], [0, 2, 0], [3]],
}
PARTS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("verifier", "verifiers/token.py", "token", {}),
    ("verifier", "verifiers/prefix.py", "token", {}),
    ("drafter", "drafters/random.py", "random", {}),
    ("policy", "policies/confidence.py", "confidence", {}),
    ("drafter", "drafters/ngram.py", "bigram", {}),
    ("drafter", "drafters/hierarchy.py", "hierarchy", {}),
    *(("verifier", f"verifiers/{file}.py", name, {}) for name, file in RULE_FILES.items()),
    ("verifier", "verifiers/recursive.py", "multi_step", {"order": "random"}),
    ("verifier", "verifiers/lenient.py", "lenient", {"residual": "scaled"}),
    ("verifier", "verifiers/lenient.py", "lenient", {"lenience": 1.0}),
    ("verifier", "verifiers/lenient.py", "scaled_uniform", {"b": 0.7}),
    ("verifier", "verifiers/lenient.py", "scaled_uniform", {"residual": "plain"}),
    ("verifier", "verifiers/cactus.py", "cactus", {"divergence": "kl"}),
    ("verifier", "verifiers/cactus.py", "cactus", {"budget": 0.0}),
    ("verifier", "verifiers/cascade.py", "cascade", {"deferral": "token"}),
    ("verifier", "verifiers/cascade.py", "cascade", {"deferral": "chow", "divergence": "kl"}),
    *(
        ("drafter", "drafters/random.py", "random", {"tree": tree})
        for tree in ("2x2", "iid:2x2", "paths:2", "top:2x2", "sequoia:.6,.2", "dynamic:2")
    ),
    ("drafter", "drafters/ngram.py", "bigram", {"order": 3, "tree": "3x1"}),
    ("drafter", "drafters/ngram.py", "bigram", {"order": 3, "tree": "dynamic:2"}),
    ("drafter", "drafters/ngram.py", "unigram", {}),
    ("drafter", "drafters/prompt_lookup.py", "prompt_lookup", {}),
    ("drafter", "drafters/prompt_lookup.py", "prompt_lookup", {"max_n": 2, "newest": False}),
    ("drafter", "drafters/lookahead_decoding.py", "lookahead_decoding", {}),
    ("drafter", "drafters/suffix.py", "suffix", {}),
    ("drafter", "drafters/token_recycling.py", "token_recycling", {}),
    ("policy", "policies/heuristic.py", "heuristic", {}),
    ("policy", "policies/heuristic.py", "heuristic", {"transient": False}),
    ("policy", "policies/confidence.py", "confidence", {"refit": True}),
    *(
        ("policy", f"policies/{name}.py", name, {})
        for name in ("entropy", "bandit", "optimal", "goodput", "utility")
    ),
    ("constraint", "constraints/penalties.py", "penalties", PENALTIES),
    ("constraint", "constraints/guidance.py", "regex", {"pattern": "(a|bb)(c|d){1,2}"}),
    ("target", "core/targets/transformers.py", "tiny", {"vocab_size": 40}),
)
"""The parts that the kit checks: role, file, name and options. A few of each role come first."""

STAND_FOR_ALL = (
    *("token", "multi_step", "gumbel", "bigram", "lookahead_decoding", "confidence", "bandit"),
)
"""The names of parts that are checked for faults in the contract and the loop, which touch all."""
FILES = (
    *("core/contract", "core/decoding", "policies", "verifiers"),
    *("drafters/parts/trees", "drafters/parts/texts", "core/targets/passes", "constraints"),
)
"""The folders whose files are mutated, beside those of PARTS."""
LEAST = 0.75
"""The share of the mutants that has to be found, since some compute the same."""
EVERY = 24
"""One in so many of the generated mutants is judged, unless asked for more."""


def wanted(only: Sequence[str], every: int) -> list[Mutant]:
    """Returns one in so many mutants of the files whose names begin with `only`."""
    files = {str(file.relative_to(ROOT)) for name in FILES for file in (ROOT / name).glob("*.py")}
    files |= {file for _, file, *_ in PARTS}
    chosen = [file for file in sorted(files) if file.startswith(tuple(only) or "")]
    return [mutant for file in chosen for mutant in sampled(file, every) if relevant(mutant)]


@cache
def imports(file: str) -> frozenset[str]:
    """Returns the files of the package that a file imports, directly or not, and itself."""
    files, waiting = {file}, [file]
    while waiting:
        new = imported(waiting.pop()) - files
        files |= new
        waiting += new
    return frozenset(files)


@cache
def imported(file: str) -> frozenset[str]:
    """Returns the files of the package that a file itself imports."""
    files = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("outrider."):
            tail = str(node.module).removeprefix("outrider.").replace(".", "/") + ".py"
            is_outside = tail.startswith(("verifiers/", "drafters/", "extras/"))
            files.add(tail if is_outside else f"core/{tail}")
    return frozenset(name for name in files if (ROOT / name).is_file())


def relevant(mutant: Mutant) -> list[tuple[str, str, dict[str, Any]]]:
    """Returns the parts whose checks may find a mutant, the likeliest first."""
    everywhere = mutant.file.startswith(("core/contract/", "core/decoding/"))
    parts = [
        part
        for part in PARTS
        if (part[2] in STAND_FOR_ALL if everywhere else mutant.file in imports(part[1]))
    ]
    parts.sort(key=lambda part: part[1] != mutant.file)
    return [(role, name, options) for role, _, name, options in parts]


def tests_of(mutant: Mutant) -> list[str]:
    """Returns the test files that mirror a file, its own one first."""
    file = Path(mutant.file)
    folder = ROOT.joinpath("tests", *file.parent.parts[file.parts[0] == "core" :])
    own = folder / f"test_{file.stem}.py"
    shared = {
        "verifiers": ("rules", "budgets", "optimal_transport"),
        "policies": ("policies",),
    }.get(folder.name, ())
    others = [folder / f"test_{name}.py" for name in shared]
    if folder.name in ("contract", "decoding", "passes", "constraints"):
        others += sorted(folder.glob("test_*.py"))
    if folder.name in ("contract", "texts", "trees"):
        others += sorted((ROOT / "tests" / "decoding").glob("test_[dr]*.py"))
    if folder.name in ("texts", "trees"):
        others.append(ROOT / "tests/drafters/test_ngram.py")
    return list(dict.fromkeys(str(path) for path in (own, *others) if path.is_file()))


def kit(mutant: Mutant | None) -> str:
    """Returns the part and the check that find a mutant, "" if none does.

    A part that can't be made, so that no check is played, is told apart: `NOT_BUILT`.
    """
    parts = relevant(mutant) if mutant else [(role, *rest) for role, _, *rest in PARTS]
    for role, name, options in parts:
        where = NOT_BUILT
        try:
            part, checks = built(role, name, options)
            for check in checks:
                where = f"{name}: {check.__name__}"
                if (why := check(part)) and role == "target":  # which has to offer all of it
                    return f"{where}: refused: {why}"
        except BaseException as error:  # noqa: BLE001  any fault counts
            return f"{where}: {' '.join(str(error).split())[:150]}"
    return ""


def built(role: str, name: str, options: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Returns what makes a part, and its checks."""
    testing = importlib.import_module("outrider.testing")
    if role != "target":
        make = importlib.import_module("outrider.plugins.config").make
        part = partial(make, role, name, **options)
        return part, list(testing.checks_of(part))
    target = importlib.import_module("outrider.testing.tiny_targets").tiny_target(**options)
    return lambda: target, [check_the_self_test, *testing.checks_of(lambda: target)]


def check_the_self_test(make: Any) -> str:
    """Returns what the self-test of a target says that it does not offer, "" for nothing."""
    rows = make().tested.properties()
    return next((f"{name}: {reason}" for name, reason in rows.items() if reason), "")


def tests(mutant: Mutant | None) -> str:
    """Returns the test that finds a mutant, "" if all pass.

    Raises:
        RuntimeError: the tests can't be run, which says nothing about the mutant.
    """
    import pytest

    class Failures:
        names: ClassVar[list[str]] = []

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                self.names.append(report.nodeid)

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                self.names.append(f"import of {report.nodeid}")

    every = [mutant] if mutant else wanted((), EVERY)
    paths = list(dict.fromkeys(path for each in every for path in tests_of(each)))
    quiet = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:anyio"]
    # The kit has played its checks already.
    ignored = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-k", "not check_"]
    status = pytest.main([*quiet, *ignored, *paths], plugins=[Failures()])
    if status == pytest.ExitCode.OK:
        return ""
    if not Failures.names:
        raise RuntimeError(f"pytest ended with status {int(status)}")
    return Failures.names[0]


WAITING: list[Mutant] = []
"""The mutants to judge, which are there before processes are forked."""


class TookTooLong(BaseException):
    """Of the processor's time; no handler of the code in question catches it."""


def limited(seconds: float) -> None:
    """Has the processor's time of this process end with `TookTooLong`."""

    def ring(*_: Any) -> None:
        raise TookTooLong(f"after {seconds:g} seconds")

    signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)


def judged(number: int | None, stages: Sequence[str]) -> dict[str, str]:
    """Returns which stage finds a mutant, and by what; runs in a process of its own.

    number: its place in `WAITING`, since patches can't be sent to a process; None for no mutant.
    """
    mutant = None if number is None else WAITING[number]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # a killed process has no result
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    if mutant:
        sys.meta_path.insert(0, Finder(mutant))
    by = finding = ""
    for stage in stages:
        limited(SECONDS[stage])
        try:
            finding = kit(mutant) if stage == "kit" else tests(mutant)
        except TookTooLong as error:
            finding = f"took too long: {error}"
        except BaseException as error:  # noqa: BLE001  the table shows it: it is not judged
            finding, stage = f"{type(error).__name__}: {error}"[:300], "not run"
        if finding:
            by = NOT_BUILT if finding.startswith(NOT_BUILT) else stage
            break
    limited(0)
    return {"mutant": mutant.key if mutant else "", "by": by, "says": finding}


def judge(
    every: Sequence[Mutant], workers: int, results: Path, seconds: float, stages: Sequence[str]
) -> None:
    """Judges mutants until the time is over, and appends a line for each to the results."""
    end = monotonic() + seconds
    WAITING[:] = every
    with results.open("a") as file, get_context("fork").Pool(workers, maxtasksperchild=1) as pool:
        for line in pool.imap_unordered(partial(judged, stages=stages), range(len(every))):
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(f"{line['by'] or 'SURVIVES':9}{line['mutant']}: {line['says']}", flush=True)
            if monotonic() > end:
                return


def report(every: Sequence[Mutant], lines: dict[str, dict[str, str]]) -> bool:
    """Prints the table and what survives; returns whether `LEAST` of what was judged is found."""
    columns = ("kit", "tests", "none", NOT_BUILT, "not run")
    rows, survivors = dict[str, Counter[str]](), list[str]()
    for mutant in every:
        line = lines.get(mutant.key)
        by = "not run" if line is None else line["by"] or "none"
        survivors += [mutant.key] * (by == "none")
        for row in (mutant.file, "total"):
            rows.setdefault(row, Counter())[by] += 1
    print(f"\n{'file':38}" + "".join(f"{column:>12}" for column in columns))
    for row, counts in sorted(rows.items(), key=lambda item: ("/" not in item[0], item[0])):
        print(f"{row:38}" + "".join(f"{counts[column]:12}" for column in columns))
    total = rows.get("total", Counter())
    both = total["kit"] + total["tests"]
    if judged := both + total["none"]:
        print(
            f"\nOf {judged} that may differ, the kit finds {total['kit']}"
            f" ({total['kit'] / judged:.0%}), kit and tests {both} ({both / judged:.0%})."
        )
    print(*(f"survives: {key}" for key in survivors), sep="\n")
    return both >= LEAST * judged


def changed(reference: str) -> set[str]:
    """Returns the files that differ from a git reference."""
    command = ["git", "-C", str(ROOT), "diff", "--name-only", reference]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], help="files, or beginnings of their names")
    parser.add_argument("--every", type=int, default=EVERY, help="judge one in so many mutants")
    parser.add_argument("--changed", help="only files that differ from this git reference")
    parser.add_argument("--kit", action="store_true", help="judge by the kit alone")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after them")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "mutants.jsonl")
    parser.add_argument("--again", action="store_true", help="judge those that survived once more")
    parser.add_argument("--original", action="store_true", help="only check the original parts")
    options = parser.parse_args()
    for name in NEEDED:
        importlib.import_module(name)
    stages = ("kit",) if options.kit else ("kit", "tests")
    if options.original:
        with get_context("fork").Pool(1) as pool:
            print(pool.apply(judged, (None, stages))["says"] or "the original passes")
        return
    every = wanted(options.only, options.every)
    if options.changed:
        files = changed(options.changed)
        every = [mutant for mutant in every if mutant.file in files]
    options.results.parent.mkdir(parents=True, exist_ok=True)
    lines = _lines(options.results)
    again = ("not run", "") if options.again else ("not run",)
    judged_keys = {key for key, line in lines.items() if line["by"] not in again}
    waiting = [mutant for mutant in every if mutant.key not in judged_keys]
    judge(waiting, options.workers, options.results, options.seconds, stages)
    if not report(every, _lines(options.results)):
        sys.exit(1)


def _lines(results: Path) -> dict[str, dict[str, str]]:
    if not results.is_file():
        return {}
    return {line["mutant"]: line for line in map(json.loads, results.read_text().splitlines())}


if __name__ == "__main__":
    main()
