"""All that a card has to show, in one command: what is right on it, and how fast it is.

    python evidence/gpu.py --out build/gpu
    python evidence/gpu.py --miniature

Checks come first: rules and draws are those of the CPU, greedy texts of twelve architectures are
the same with drafts, sampled texts have their distribution, a round of a chain waits twice, texts
leave no memory behind, the tests that are marked "device" pass, compiled passes are CUDA graphs,
and flex attention and weights of eight bits keep their texts.
Then a model of the size of Qwen3-8B writes with random weights, alone, with an EAGLE-3 and a DFlash
of its size, and by transformers and vLLM. Time does not depend on what weights hold; how many
tokens are accepted is scripted. The exit status is 1 if a check fails.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from gpu_bench import benched
from gpu_checks import CHECKS, Check


def page(results: dict[str, Any]) -> str:
    """Returns the results as a page."""
    lines = [f"# Outrider on {results['device']}", "", f"torch {results['torch']}.", ""]
    lines += ["| check | | seen |", "|---|---|---|"]
    for check in results["checks"]:
        lines.append(
            f"| {check['check']} | {'yes' if check['holds'] else '**NO**'} | {check['seen']} |"
        )
    names = ("mode", "engine", "batch", "tokens/s", "tokens a call", "draft, score, verify (ms)")
    lines += ["", f"| {' | '.join(names)} | GB |", "|---|---|--:|--:|--:|---|--:|"]
    for row in results["bench"]:
        start = f"| {row['mode']} | {row.get('engine', '')} | {row['batch']} |"
        if "skipped" in row:
            lines.append(f"{start} {row['skipped']} | | | |")
            continue
        calls = max(1, row.get("calls", 1)) / row["batch"]
        phases = ", ".join(f"{1000 * it / calls:.2f}" for it in row.get("seconds", {}).values())
        held = "" if row.get("gigabytes") is None else f"{row['gigabytes']:.1f}"
        speed = f"{row['tokens_per_second']:.1f} | {row['tokens_per_call']:.2f}"
        lines.append(f"{start} {speed} | {phases} | {held} |")
    return "\n".join([*lines, ""])


def checked(check: Check, device: torch.device, small: bool) -> dict[str, Any]:
    """Returns whether a check holds, and what was seen; an error of any kind is seen too."""
    name, holds, began = check.__name__.replace("_", " "), True, time.perf_counter()
    try:
        seen = check(device, small)
    except Exception as error:  # noqa: BLE001  a card has errors of its own
        holds, seen = False, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    seconds = time.perf_counter() - began
    print(f"{name}: {seen} ({seconds:.0f} s)", file=sys.stderr, flush=True)
    return {"check": name, "holds": holds, "seen": seen, "seconds": seconds}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="build/gpu", help="the folder of gpu.json and gpu.md")
    parser.add_argument("--minutes", type=float, default=10.0, help="after which no row begins")
    parser.add_argument("--checks", nargs="*", help="words of the names of those to run: all")
    parser.add_argument("--batches", nargs="*", type=int, help="texts at once: 1 4 16 64")
    parser.add_argument("--miniature", action="store_true", help="tiny, on this machine's CPU")
    options = parser.parse_args()
    here = (
        None if options.miniature else torch.accelerator.current_accelerator(check_available=True)
    )
    if here is None and not options.miniature:
        parser.error("torch finds no accelerator: expected one, or --miniature")
    device, until = here or torch.device("cpu"), time.monotonic() + 60 * options.minutes
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    results: dict[str, Any] = {"device": name, "torch": torch.__version__, "bench": []}
    results["checks"] = [
        checked(check, device, options.miniature)
        for check in CHECKS
        if options.checks is None or any(word in check.__name__ for word in options.checks)
    ]
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        batches = options.batches or ((1, 2) if options.miniature else (1, 4, 16, 64))
        for row in benched(device, options.miniature, Path(folder), batches, until):
            results["bench"].append(row)
            print(row, file=sys.stderr, flush=True)
            # Each row is kept at once: the time on a card may end before the run does.
            (out / "gpu.json").write_text(json.dumps(results, indent=2))
            (out / "gpu.md").write_text(page(results))
    print(page(results))
    return not all(check["holds"] for check in results["checks"])


if __name__ == "__main__":
    sys.exit(main())
