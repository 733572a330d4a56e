"""What `outrider doctor` examines: what is installed, the machine, and a short self-test."""

import os
import shutil
import socket
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from time import perf_counter
from typing import Any

import platformdirs
import torch
from packaging.requirements import Requirement

from outrider.base.errors import OutriderError
from outrider.decoding.generation import generate
from outrider.lab.measuring.machine import ROWS, product_seconds
from outrider.lab.runs.identity import provenance
from outrider.plugins.parts import make
from outrider.plugins.presets import plugin_folders
from outrider.plugins.registry import installed
from outrider.targets.passes.engine import engines
from outrider.targets.tabular import TabularTarget
from outrider.testing import run_checks

FREE_GB = 1.0
"""The free space that the built-in target needs until it is in the cache."""

SMOLLM2 = "smollm2"
"""How the names of the built-in target's folders begin."""


def examine() -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Returns facts as plain values by section, and what is wrong, one line each."""
    sections: dict[str, Callable[[list[str]], dict[str, Any]]] = {
        "versions": versions,
        "machine": machine,
        "precision": precision,
        "engines": running,
        "cache": cache,
        "plugins": plugins,
        "self-test": self_test,
    }
    faults: list[str] = []
    return {name: section(faults) for name, section in sections.items()}, faults


def versions(faults: list[str]) -> dict[str, Any]:
    installed_versions = {"outrider": version("outrider")}
    for line in requires("outrider") or ():
        requirement = Requirement(line)
        name, marker = requirement.name, requirement.marker
        if marker is not None and not marker.evaluate({"extra": ""}):
            continue
        try:
            installed_versions[name] = version(name)
        except PackageNotFoundError:
            faults.append(f"{name}: expected {requirement.specifier}, it is not installed")
            continue
        if not requirement.specifier.contains(installed_versions[name], prereleases=True):
            faults.append(f"{name}={installed_versions[name]}: expected {requirement.specifier}")
    return installed_versions


def machine(_: list[str]) -> dict[str, Any]:
    """Returns the interpreter, the processor, the cores and threads, and the load."""
    start = provenance("doctor", ())
    names = ("python", "system", "processor", "memory_gib", "accelerator", "cores", "threads")
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {
        **{name: start[name] for name in names},
        "cores for this process": usable,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
        "host name": host_name(),
        "load in the last minute": start["load"],
    }


def host_name() -> str:
    """Returns this machine's name, and what to do where it can't be found by it."""
    name = socket.getfqdn()  # as torchrun hands it to its processes
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return f"{name}, which does not resolve: torchrun needs --local-addr 127.0.0.1"
    return name


def precision(_: list[str]) -> dict[str, Any]:
    """Returns what PyTorch has for products of matrices in float32 and in bfloat16."""
    return {
        "torch on the CPU": torch.backends.cpu.get_cpu_capability(),
        f"{ROWS} rows in float32, ms": round(1000 * product_seconds(torch.float32), 2),
        f"{ROWS} rows in bfloat16, ms": round(1000 * product_seconds(torch.bfloat16), 2),
    }


def running(_: list[str]) -> dict[str, Any]:
    """Returns what each engine, which runs models' passes, found on this machine."""
    return {
        f"{name}: {fact.replace('_', ' ')}": value
        for name, engine in engines().items()
        for fact, value in engine.facts().items()
    }


def cache(faults: list[str]) -> dict[str, Any]:
    """Returns the size of each cache folder in MB, and the space that is free, in GB."""
    folder = Path(platformdirs.user_cache_path("outrider"))
    parent = next(path for path in (folder, *folder.parents) if path.is_dir())
    if not os.access(parent, os.W_OK):
        faults.append(f"{parent}: expected a folder that can be written to (set XDG_CACHE_HOME)")
    free = shutil.disk_usage(parent).free / 1e9
    folders = [path for path in sorted(folder.glob("*")) if path.is_dir()]
    if free < FREE_GB and not any(path.name.startswith(SMOLLM2) for path in folders):
        faults.append(f"{parent}: {free:.1f} GB are free: target=smollm2 needs {FREE_GB:.0f}")
    sizes = {f"{path.name}, MB": round(size(path) / 1e6, 1) for path in folders}
    return {"folder": str(folder), **sizes, "free, GB": round(free, 1)}


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def plugins(faults: list[str]) -> dict[str, Any]:
    """Returns the parts of each installed plugin; one that can't be loaded is a fault."""
    facts: dict[str, Any] = {}
    registry = installed()
    plugin_folders()
    faults += [*registry.faults, *registry.silent]
    for part in registry.entries:
        if part.distribution != "outrider":
            owner = f"{part.plugin} of {part.distribution}"
            facts.setdefault(owner, []).append(f"{part.role} {part.name}")
            try:
                _ = part.factory
            except OutriderError as error:
                faults.append(str(error))
    return {**facts, "parts in all": len(registry.entries)}


def self_test(faults: list[str]) -> dict[str, Any]:
    """Decodes on a small target, and proves a drafter and a rule with the conformance kit."""
    began = perf_counter()
    target = TabularTarget(vocab_size=6)
    texts = [generate(target, [0, 1], name, max_new_tokens=24) for name in ("none", "bigram")]
    if texts[0].tokens != texts[1].tokens:
        faults.append("self-test: a greedy text differs with and without drafts")
    checks = 0
    for role, name in (("drafter", "random"), ("verifier", "token")):
        for outcome in run_checks(partial(make, role, name)):
            checks += 1
            if outcome.fault:
                faults.append(f"self-test: {role} {name}: {outcome.check}: {outcome.fault}")
    return {"checks": checks, "seconds": round(perf_counter() - began, 1)}
