"""Seconds until a model writes its first token, beside those of reading its file.

    python evidence/loading.py TARGET DRAFTER --quantize none int4

A model is a folder or a GGUF file, which is converted first. Each row is a process of its own, from
its start to its first token: warm, with the file in the system's memory, or cold, after the system
has dropped it. `imports` are those of PyTorch and transformers, the same for every model. It needs
an idle machine.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time

from pages import heading, write_page

from outrider.base.terminal import QUIET
from outrider.targets import gguf
from outrider.targets.weight_files import weight_files

CACHES = ("warm", "cold")
COLUMNS = (
    *("model", "weights", "file is", "file", "`cat`", "imports", "to the first token", "of `cat`"),
    *("CPU", "most memory"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", help="folders or GGUF files")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--quantize", nargs="*", default=["none"], help="none, int8, int4")
    parser.add_argument("--caches", nargs="*", choices=CACHES, default=CACHES)
    parser.add_argument("--page", type=Path, help="the page that the table goes to")
    parser.add_argument("--run", metavar="QUANTIZE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(stages(options.models[0], options.dtype, options.run)))
        return
    table = heading(COLUMNS, texts=3)
    for model in options.models:
        table += rows(model, options)
    print("\n".join(table))
    if options.page:
        write_page(options.page, "loading", table)


def rows(model: str, options: argparse.Namespace) -> Iterator[str]:
    """Yields a line for each way of loading a model."""
    folder = model
    if Path(model).is_file():  # converted now, if it was not
        folder, _ = gguf.converted_folder(Path(model), options.dtype)
    files = weight_files(folder)
    size = sum(path.stat().st_size for path in files) / 1e9
    for quantize in options.quantize:
        for cache in options.caches:
            read = read_seconds(files, cache)
            prepare(files, cache)
            command = [sys.executable, __file__, model, "--dtype", options.dtype, "--run", quantize]
            began = perf_counter()
            done = subprocess.run(
                command, stdout=subprocess.PIPE, check=True, env=os.environ | {QUIET: "1"}
            )
            ran = json.loads(done.stdout) | {"all": perf_counter() - began}
            weights = options.dtype if quantize == "none" else quantize
            cells = [
                *(Path(model).name, weights, cache, f"{size:.1f} GB", f"{read:.1f} s"),
                *(f"{ran['imports']:.1f} s", f"{ran['all']:.1f} s", f"{ran['all'] / read:.1f}"),
                *(f"{ran['cpu']:.1f} s", f"{ran['peak']:.1f} GB"),
            ]
            yield f"| {' | '.join(cells)} |"


def read_seconds(files: list[Path], cache: str) -> float:
    """Returns how long reading the files takes, as `cat` does."""
    prepare(files, cache)
    began = perf_counter()
    _read(files)
    return perf_counter() - began


def prepare(files: list[Path], cache: str) -> None:
    """Makes the system hold the files in its memory, or drop them."""
    if cache == "warm":
        _read(files)
        return
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read(files: list[Path]) -> None:
    part = bytearray(1 << 17)
    for path in files:
        with path.open("rb", buffering=0) as file:
            while file.readinto(part):
                pass


def stages(model: str, dtype: str, quantize: str) -> dict[str, float]:
    """Returns the seconds of imports, those of the processor in all, and the most memory in GB."""
    began = perf_counter()
    # Imported here, since they are measured.
    import transformers.modeling_utils

    from outrider import generate
    from outrider.targets.transformers import TransformersTarget

    assert transformers.modeling_utils
    imports = perf_counter() - began
    rounding = None if quantize == "none" else quantize
    target = TransformersTarget(model, dtype=dtype, quantize=rounding)
    generate(target, "Once upon a time", "none", max_new_tokens=1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"imports": imports, "cpu": process_time(), "peak": peak}


if __name__ == "__main__":
    main()
