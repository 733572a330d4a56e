"""The identity of what every proof rests on: sampling, chance, pen, loop, and the kit itself.

That these are right is proved by Outrider's own tests, once for a release, and not at each author's
desk. So the kit says which ones it ran on, and compares them with those of the release.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import PackagePath, distribution
from pathlib import Path

from outrider.plugins.code_version import source_hash

FOLDERS = ("base", "contract", "decoding", "testing")


def ground() -> str:
    """Returns version and hash of the sources that proofs rest on, as reports name them."""
    modules = (f"outrider.{folder}" for folder in FOLDERS)
    return f"outrider {distribution('outrider').version}, sources {source_hash(*modules)}"


def check_the_ground_is_that_of_the_release(_: object) -> str | None:
    """Sampling, chance, pen, loop and kit are the files of the installed release, whose own tests
    prove them. Those of an editable installation are named, and `make test` proves them.
    """
    files = list(_installed_files())
    for file in files:
        content = sha256(Path(file.locate()).read_bytes()).digest()
        own = urlsafe_b64encode(content).rstrip(b"=").decode()
        assert file.hash is None or own == file.hash.value, (
            f"{file} was edited after its installation: expected the file of outrider"
            f" {distribution('outrider').version}, whose tests prove it"
        )
    return None if files else f"an editable installation, proved by its own tests: {ground()}"


def _installed_files() -> Iterator[PackagePath]:
    """Yields the sources that an installation has copied and hashed; those of a checkout aren't."""
    for file in distribution("outrider").files or ():
        package, _, folder = ".".join(file.parts[:-1]).partition(".")
        if file.suffix == ".py" and package == "outrider" and folder in FOLDERS:
            yield file


CHECKS = (check_the_ground_is_that_of_the_release,)
