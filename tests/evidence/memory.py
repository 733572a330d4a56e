"""Peak memory of `outrider generate` on SmolLM2: at most weights + cache + 600 MB.

python tests/evidence/memory.py
"""

import argparse
import resource
import subprocess
import sys
import tempfile

WEIGHTS = 538
"""Megabytes of SmolLM2-135M in float32."""
CACHE = 30 * 2 * 3 * 64 * 4 / 1e6
"""Megabytes a token: layers * (keys and values) * heads * width * bytes."""
ALLOWANCE = 600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=128)
    tokens = parser.parse_args().tokens
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                sys.executable,
                "-m",
                "outrider.cli",
                "generate",
                "prompt=Write a story about a lighthouse.",
                f"max_new_tokens={tokens}",
                f"hydra.run.dir={folder}",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    limit = WEIGHTS + CACHE * (tokens + 64) + ALLOWANCE
    print(f"peak {peak:.0f} MB (at most {limit:.0f})")
    sys.exit(peak > limit)


if __name__ == "__main__":
    main()
