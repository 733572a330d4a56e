"""Which faults the kit and the tests find: mutants of rules, pen, chance, loop, trees and policies.

A mutant is a small patch of `mutants.txt`. Each is loaded in a process of its own, forked from one
that has torch. The kit's checks of the built-in parts come first. The tests that mirror the file
run on what survives them. A mutant with a line that begins with "=" is equivalent: the line says
why no check can tell it from the original. "~" begins what a mutant changes that the kit does not
promise to see: how well a drafter drafts, say, while each text keeps its distribution.

python evidence/mutants.py --only verifiers/k_seq.py --results mutants.jsonl
"""

import argparse
import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".txt")
NEEDED = ("torch", "transformers", "tokenizers", "scipy.optimize", "hydra", "rich", "pytest")
"""Modules that are imported once, before any process is forked."""
SECONDS = {"kit": 180, "tests": 300}
"""The most processor time of a mutant; one that takes longer is killed, and so found."""
NOT_JUDGED = "not judged"
VERIFIERS = (
    *("token", "multi_step", "without_replacement", "traversal", "k_seq", "multi_path_block"),
    *("block", "hierarchical", "candidates", "sample_match", "rejection", "scaled_uniform"),
    *("cactus", "cascade", "gumbel", "lenient", "typical", "optimal_transport"),
)
PARTS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("verifier", "verifiers/token.py", "token", {}),
    ("drafter", "drafters/random.py", "random", {}),
    ("policy", "core/policies/confidence.py", "confidence", {}),
    ("drafter", "drafters/ngram.py", "bigram", {}),
    ("drafter", "drafters/hierarchy.py", "hierarchy", {}),
    *(("verifier", f"verifiers/{name}.py", name, {}) for name in VERIFIERS[1:]),
    ("verifier", "verifiers/multi_step.py", "multi_step", {"order": "random"}),
    ("verifier", "verifiers/lenient.py", "lenient", {"residual": "scaled"}),
    ("verifier", "verifiers/lenient.py", "lenient", {"lenience": 1.0}),
    ("verifier", "verifiers/scaled_uniform.py", "scaled_uniform", {"b": 0.7}),
    ("verifier", "verifiers/scaled_uniform.py", "scaled_uniform", {"residual": "plain"}),
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
    ("policy", "core/policies/heuristic.py", "heuristic", {}),
    ("policy", "core/policies/heuristic.py", "heuristic", {"transient": False}),
    ("policy", "core/policies/confidence.py", "confidence", {"refit": True}),
    *(
        ("policy", f"core/policies/{name}.py", name, {})
        for name in ("entropy", "bandit", "optimal", "goodput", "utility")
    ),
)
"""The parts that the kit checks: role, file, name and options. A few of each role come first."""

STAND_FOR_ALL = (
    *("token", "multi_step", "without_replacement", "multi_path_block", "gumbel", "lenient"),
    *("random", "bigram", "hierarchy", "prompt_lookup", "confidence"),
)
"""The names of parts that are checked for faults in the contract and the loop, which touch all."""


@dataclass(frozen=True)
class Mutant:
    """A patch: `old` becomes `new` in `file`.

    equivalent: why nothing can find it, or "".
    unpromised: what it changes that the kit does not promise to see, or "".
    """

    file: str
    old: str
    new: str
    equivalent: str = ""
    unpromised: str = ""

    @property
    def module(self) -> str:
        """Returns the name of the patched module."""
        folder, *rest = Path(self.file).with_suffix("").parts
        return ".".join(["outrider", *([] if folder == "core" else [folder]), *rest])

    @property
    def source(self) -> str:
        """Returns the patched source."""
        return (ROOT / self.file).read_text().replace(self.old, self.new)

    @property
    def key(self) -> str:
        """Returns what identifies the mutant in a file of results."""
        return json.dumps([self.file, self.old, self.new])


def mutants() -> Iterator[Mutant]:
    """Yields the mutants of the list."""
    file, parts = "", {"-": "", "+": "", "=": "", "~": ""}
    for line in [*LIST.read_text().splitlines(), "# end"]:
        mark, text = line[:1], line[2:]
        if parts["+"] and mark in "#-":
            yield Mutant(file, *parts.values())
            parts = dict.fromkeys(parts, "")
        if mark == "#":
            file = text
        else:
            parts[mark] += ("\n" if parts[mark] else "") + text


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads one module from a patched source."""

    def __init__(self, mutant: Mutant) -> None:
        super().__init__(mutant.module, str(ROOT / mutant.file))
        self._mutant = mutant

    def get_code(self, fullname: str) -> Any:
        return compile(self._mutant.source, self._mutant.file, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self._mutant.module:
            return None
        file = ROOT / self._mutant.file
        return importlib.util.spec_from_file_location(name, file, loader=_Loader(self._mutant))


@cache
def imports(file: str) -> frozenset[str]:
    """Returns the files of the package that a file imports, directly or not, and itself."""
    files, waiting = {file}, [file]
    while waiting:
        for node in ast.walk(ast.parse((ROOT / waiting.pop()).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("outrider."):
                tail = str(node.module).removeprefix("outrider.").replace(".", "/") + ".py"
                inner = tail if tail.startswith(("verifiers/", "drafters/")) else f"core/{tail}"
                if inner not in files and (ROOT / inner).is_file():
                    files.add(inner)
                    waiting.append(inner)
    return frozenset(files)


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
    shared = {"verifiers": ("rules", "budgets"), "policies": ("policies",)}.get(folder.name, ())
    others = [folder / f"test_{name}.py" for name in shared]
    if folder.name in ("contract", "decoding"):
        others += sorted(folder.glob("test_*.py"))
    if folder.name in ("contract", "texts", "trees"):
        others += sorted((ROOT / "tests" / "decoding").glob("test_[dr]*.py"))
    if folder.name in ("texts", "trees"):
        others += [ROOT / "tests/drafters/test_ngram.py", ROOT / "tests/drafters/test_random.py"]
    return list(dict.fromkeys(str(path) for path in (own, *others) if path.is_file()))


def kit(mutant: Mutant | None) -> str:
    """Returns the part and the check that find a mutant, "" if none does."""
    make = importlib.import_module("outrider.plugins.registry").make
    checks_of = importlib.import_module("outrider.testing").checks_of
    parts = relevant(mutant) if mutant else [(role, *rest) for role, _, *rest in PARTS]
    for role, name, options in parts:
        part = partial(make, role, name, **options)
        try:
            for check in checks_of(part):
                check(part)
        except BaseException as error:  # noqa: BLE001  any fault counts
            traceback = error.__traceback__
            where = "making it" if traceback is None else _check_in(traceback)
            return f"{name}: {where}: {' '.join(str(error).split())[:150]}"
    return ""


def _check_in(traceback: Any) -> str:
    names = []
    while traceback is not None:
        names.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    return next((name for name in names if name.startswith("check_")), names[-1])


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

    paths = (
        tests_of(mutant) if mutant else sorted({path for m in mutants() for path in tests_of(m)})
    )
    quiet = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:anyio"]
    # The kit has played its checks already.
    ignored = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-k", "not check_"]
    status = pytest.main([*quiet, *ignored, *paths], plugins=[Failures()])
    if status == pytest.ExitCode.OK:
        return ""
    if not Failures.names:
        raise RuntimeError(f"pytest ended with status {int(status)}")
    return Failures.names[0]


def judged(stage: str, mutant: Mutant | None) -> int:
    """Starts a process that writes what finds a mutant into a file; returns its id."""
    process = os.fork()
    if process:
        return process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS[stage], SECONDS[stage] + 1))
    output = os.open(_result(os.getpid()), os.O_CREAT | os.O_WRONLY)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    if mutant:
        sys.meta_path.insert(0, _Finder(mutant))
    try:
        says = kit(mutant) if stage == "kit" else tests(mutant)
    except BaseException as error:  # noqa: BLE001  the table shows it: it is not judged
        says = f"{NOT_JUDGED}: {type(error).__name__}: {error}"[:300]
    os.write(output, json.dumps(says).encode())
    os._exit(0)


def _result(process: int) -> str:
    return f"{tempfile.gettempdir()}/outrider-mutant-{process}.json"


def says(process: int) -> str:
    """Returns what a process wrote; that it died, if it wrote nothing."""
    path = Path(_result(process))
    text = path.read_text() if path.is_file() else ""
    path.unlink(missing_ok=True)
    return str(json.loads(text)) if text else "took too long, or died"


def judge(wanted: Sequence[Mutant], workers: int, results: Path, seconds: float) -> None:
    """Judges mutants, and appends a line for each to the file of results."""
    from time import monotonic

    end = monotonic() + seconds
    waiting, running = [("kit", mutant, "") for mutant in wanted], dict[int, Any]()
    with results.open("a") as file, _ended(running):
        while running or (waiting and monotonic() < end):
            while waiting and len(running) < workers and monotonic() < end:
                stage, mutant, _ = waiting.pop(0)
                running[judged(stage, mutant)] = (stage, mutant)
            process, _ = os.wait()
            stage, mutant = running.pop(process)
            finding = says(process)
            if stage == "kit" and not finding:
                waiting.insert(0, ("tests", mutant, ""))
                continue
            by = "not run" if finding.startswith(NOT_JUDGED) else stage if finding else ""
            line = {"mutant": mutant.key, "by": by, "says": finding}
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(
                f"{line['by'] or 'SURVIVES':9}{mutant.file}: {mutant.old!r}: {finding}", flush=True
            )


@contextmanager
def _ended(running: dict[int, Any]) -> Iterator[None]:
    """Ends the processes that still run when this one is interrupted or told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        yield
    finally:
        for process in running:
            os.kill(process, signal.SIGKILL)


def report(every: Sequence[Mutant], lines: dict[str, dict[str, str]]) -> bool:
    """Prints the table and what survives; returns whether all are found or equivalent."""
    rows: dict[str, Counter[str]] = {}
    survivors, beyond = [], 0
    for mutant in every:
        line = lines.get(mutant.key)
        by = "not run" if line is None else line["by"] or "none"
        if by == "none" and mutant.equivalent:
            by = "equivalent"
        elif by == "none":
            survivors.append(mutant)
        beyond += by == "tests" and bool(mutant.unpromised)
        for row in (mutant.file, "total"):
            rows.setdefault(row, Counter())[by] += 1
    rows["total"] = rows.pop("total", Counter())
    columns = ("kit", "tests", "none", "equivalent", "not run")
    print(f"\n{'file':38}" + "".join(f"{column:>12}" for column in columns))
    for row, counts in rows.items():
        print(f"{row:38}" + "".join(f"{counts[column]:12}" for column in columns))
    total = rows["total"]
    judgeable = total["kit"] + total["tests"] + total["none"]
    if judgeable:
        both = total["kit"] + total["tests"]
        print(
            f"\nOf {judgeable} mutants that differ, the kit finds {total['kit']}"
            f" ({total['kit'] / judgeable:.0%}), kit and tests {both} ({both / judgeable:.0%})."
        )
        promised = judgeable - beyond
        print(
            f"{beyond} of the others change what the kit does not promise to see. Of the"
            f" {promised} left, the kit finds {total['kit']} ({total['kit'] / promised:.0%})."
        )
    for mutant in survivors:
        print(f"survives: {mutant.file}: {mutant.old!r} -> {mutant.new!r}")
    return not survivors


def changed(reference: str) -> set[str]:
    """Returns the files that differ from a git reference."""
    command = ["git", "-C", str(ROOT), "diff", "--name-only", reference]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", help="files, or the beginnings of their names")
    parser.add_argument("--changed", help="only files that differ from this git reference")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start none after them")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "mutants.jsonl")
    parser.add_argument("--again", action="store_true", help="judge those that survived once more")
    parser.add_argument("--original", action="store_true", help="only check the original parts")
    options = parser.parse_args()
    for name in NEEDED:
        importlib.import_module(name)
    if options.original:
        for stage in ("kit", "tests"):
            process = judged(stage, None)
            os.wait()
            print(says(process) or f"{stage}: the original passes", flush=True)
        return
    every = list(mutants())
    if options.only:
        every = [mutant for mutant in every if mutant.file.startswith(tuple(options.only))]
    if options.changed:
        files = changed(options.changed)
        every = [mutant for mutant in every if mutant.file in files]
    options.results.parent.mkdir(parents=True, exist_ok=True)
    lines = _lines(options.results)
    again = ("not run", "") if options.again else ("not run",)
    judged_keys = {key for key, line in lines.items() if line["by"] not in again}
    waiting = [mutant for mutant in every if mutant.key not in judged_keys]
    judge(waiting, options.workers, options.results, options.seconds)
    if not report(every, _lines(options.results)):
        sys.exit(1)


def _lines(results: Path) -> dict[str, dict[str, str]]:
    if not results.is_file():
        return {}
    return {line["mutant"]: line for line in map(json.loads, results.read_text().splitlines())}


if __name__ == "__main__":
    main()
