"""Fingerprints: which code, files, values and weights something was made from.

Whatever is kept, such as a cached text, a measurement or a checkpoint, carries those of its origin.
"""

import hashlib
import importlib
import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    distribution,
    packages_distributions,
    version,
)
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outrider.plugins.registry import builtin

HASHED = (".py", ".c", ".json", ".safetensors")
"""The files of a package that decide what it computes."""

DECIDING = ("contract", "data", "decoding", "lab", "targets")
"""The folders of the core that decide what a run measures, beside those of the built-in parts."""

WORD = 8
"""The bytes of the integers that `checksum` adds up."""

PARTS = ("constraint", "drafter", "engine", "policy", "score", "verifier")
"""The roles whose code decides what a run measures."""

CodeVersion = dict[str, str]
"""A distribution's name and version, and the hash of its source where the version is not enough."""


def code_version(module: str) -> CodeVersion:
    """Returns where a module comes from.

    Code of an installed wheel is identified by `distribution` and `version`. Code that can change
    while its version stays the same has a `source` as well, a hash of its files: code that is
    installed as editable, and code that belongs to no distribution.
    """
    package = module.partition(".")[0]
    installed = _distribution(package)
    result = {"distribution": installed.name, "version": installed.version} if installed else {}
    if installed is None or not _is_in_site_packages(package):
        result["source"] = source_hash(*(_deciding() if package == "outrider" else [package]))
    return result


@cache
def _deciding() -> tuple[str, ...]:
    """Returns the packages of Outrider that decide what a run measures."""
    modules = (entry.path.rpartition(".")[0] for entry in builtin().entries if entry.role in PARTS)
    parts = {module.rpartition(".")[0] for module in modules}
    return tuple(sorted(parts | {f"outrider.{folder}" for folder in DECIDING}))


@cache
def source_hash(*modules: str) -> str:
    """Returns the first 16 hexadecimal digits of the SHA-256 of the modules' files."""
    return hash_files(file for module in modules for file in _files(module))


def hash_files(files: Iterable[Path]) -> str:
    """Returns the first 16 hexadecimal digits of the SHA-256 of the files' names and contents."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            own = hashlib.file_digest(content, "sha256").digest()
        digest.update(file.name.encode() + b"\0" + own)
    return digest.hexdigest()[:16]


def hash_of(value: Any) -> str:
    """Returns the SHA-256 of a value that JSON can hold."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def versions(*distributions: str) -> dict[str, str]:
    return {name: version(name) for name in distributions}


def hash_tensors(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """Returns the SHA-256 of the names and bytes of tensors."""
    digest = hashlib.sha256()
    for name, tensor in tensors:
        for part, plain in plain_parts(name, tensor.detach()):
            digest.update(part.encode())
            digest.update(_bytes(plain.cpu()).numpy().data)
    return digest.hexdigest()


def checksum(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """Returns a hash of the names, shapes and sums of tensors, in a single reading of them.

    A cryptographic hash of every byte would take as long as a self-test. The sum of a tensor's bits
    reveals any change that was not made to be hidden.
    """
    digest = hashlib.sha256()
    for name, tensor in tensors:
        for part, plain in plain_parts(name, tensor.detach()):
            data = _bytes(plain)
            if data.storage_offset() % WORD:
                data = data.clone()
            aligned = len(data) // WORD * WORD
            total = int(data[:aligned].view(torch.int64).sum()) + int(data[aligned:].sum())
            digest.update(f"{part} {tuple(plain.shape)} {plain.dtype} {total}\n".encode())
    return digest.hexdigest()


def plain_parts(name: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yields the tensors that a wrapping one, such as torchao's rounded weights, is made of.

    Each comes with its name; a plain tensor is one. A wrapping tensor takes few operations.
    """
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        yield name, tensor
        return
    for part in flatten()[0]:
        yield from plain_parts(f"{name}.{part}", getattr(tensor, part))


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)


def _files(name: str) -> list[Path]:
    """Returns the files of a package or a module, in the order of their paths."""
    module = importlib.import_module(name)
    if (folders := getattr(module, "__path__", None)) is None:
        file = getattr(module, "__file__", None)  # a notebook has none
        return [Path(file)] if file else []
    return sorted(
        file
        for folder in folders
        for file in Path(folder).rglob("*")
        if file.suffix in HASHED and file.is_file()
    )


@cache
def _distribution(package: str) -> Distribution | None:
    """Returns the distribution that a package belongs to, or None."""
    try:
        return distribution(package)  # by far the quickest, where the names agree
    except PackageNotFoundError:
        names = packages_distributions().get(package, ())
    return distribution(names[0]) if names else None


def _is_in_site_packages(package: str) -> bool:
    """Returns whether a package's files are those of its wheel, rather than somebody's checkout."""
    file = getattr(importlib.import_module(package), "__file__", None) or ""
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)
