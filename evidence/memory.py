"""Memory on SmolLM2: of a generation, of trees behind a long prompt, and of passes of many sizes.

python evidence/memory.py

Each figure is the peak of a process of its own:

- `outrider generate` takes at most the weights, the cache and 650 MB;
- a tree behind a prompt of 8,000 tokens takes at most 60 MB more than a chain, and so does a tree
  in a batch of two such prompts;
- trees and batches of 30 sizes keep at most 80 MB more than as many passes of one size.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

WEIGHTS = 538
"""Megabytes of SmolLM2-135M in float32."""
CACHE = 30 * 2 * 3 * 64 * 4 / 1e6
"""Megabytes a token: layers * (keys and values) * heads * width * bytes."""
ALLOWANCE = 650
TREE, KEPT = 60, 80
"""Megabytes that a tree, and passes of many sizes, may add."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=128, help="to generate")
    parser.add_argument("--prompt", type=int, default=8000, help="tokens before a tree")
    parser.add_argument("--only", nargs="*", default=["generate", *PAIRS], metavar="ROW")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        _score(*json.loads(options.run))
        return
    rows = []
    if "generate" in options.only:
        limit = WEIGHTS + CACHE * (options.tokens + 64) + ALLOWANCE
        peak = _generate(options.tokens)
        if peak > limit:  # a first time converts the weights, which takes more
            peak = _generate(options.tokens)
        rows.append(("generate: peak", peak, limit))
    for name in [name for name in PAIRS if name in options.only]:
        *runs, limit = PAIRS[name]
        whole = [(sizes, prompt or options.prompt, *rest) for sizes, prompt, *rest in runs]
        usual, more = (_peak(__file__, "--run", json.dumps(run)) for run in whole)
        rows.append((f"{name}: adds", more - usual, limit))
    for what, peak, limit in rows:
        print(f"{what} {peak:.0f} MB (at most {limit:.0f})")
    sys.exit(any(peak > limit for _, peak, limit in rows))


def _generate(tokens: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return _peak(
            *("-m", "outrider", "generate", "prompt=Write a story about a lighthouse."),
            *(f"max_new_tokens={tokens}", f"hydra.run.dir={folder}"),
        )


def _peak(*command: str) -> float:
    """Returns the most megabytes that a Python process took."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_maxrss * 1024 / 1e6


def _score(sizes: list[int], prompt: int, texts: int, width: int) -> None:
    """Scores a draft of each size behind prompts, and drops it again.

    prompt: their tokens. width: how many children each node has; 1 makes chains.
    """
    # Imported here, so that the process that measures the others stays small.
    from outrider import Draft, Verdict
    from outrider.decoding.batches.batch_target import batched
    from outrider.targets.smollm2 import smollm2

    target = smollm2()
    serving = batched(target)
    prompts = [[100 + (7 * token + text) % 900 for token in range(prompt)] for text in range(texts)]
    batch = texts > 1
    sessions = serving.open_together(prompts) if batch else [target.open(prompts[0])]
    for size in sizes:
        parents = tuple((node - 1) // width if node else -1 for node in range(size))
        draft = Draft(tuple(range(200, 200 + size)), parents, (None,) * size)
        if batch:
            serving.score_together(sessions, [draft] * texts)
        else:
            sessions[0].score(draft)
        for session in sessions:
            session.commit(Verdict((), 300))


SIZES = list(range(61, 2, -2))
"""Nodes of trees, 30 different numbers."""
SAME = [max(SIZES)] * len(SIZES)
Run = tuple[list[int], int, int, int]
PAIRS: dict[str, tuple[Run, Run, int]] = {
    "tree": (([32], 0, 1, 1), ([32], 0, 1, 2), TREE),
    "trees in a batch": (([32], 0, 2, 1), ([32], 0, 2, 2), TREE),
    "trees of 30 sizes": ((SAME, 8, 1, 2), (SIZES, 8, 1, 2), KEPT),
    "batches of 30 sizes": ((SAME, 8, 3, 2), (SIZES, 8, 3, 2), KEPT),
}
"""Each row compares two runs of `_score`, where a prompt of 0 is --prompt, and has a limit."""

if __name__ == "__main__":
    main()
