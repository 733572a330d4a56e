"""The groups of optional dependencies of a distribution, such as `outrider[view]`."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, requires

from packaging.requirements import Requirement


def lacking(owner: str, group: str) -> list[str]:
    """Returns the libraries of a group that are not installed. owner: the distribution."""
    return [each.name for each in _optional(owner) if _is_in(each, group) and not _is_here(each)]


def group_with(library: str, owner: str = "outrider") -> str | None:
    """Returns the group of a distribution that brings a library; None if there is none."""
    for each in _optional(owner):
        if each.name == library:
            return str(each.marker).rpartition("== ")[2].strip('"')
    return None


def _optional(owner: str) -> Iterator[Requirement]:
    try:
        texts = requires(owner) or ()
    except PackageNotFoundError:  # it runs from a folder that was not installed
        return
    needed = (Requirement(text) for text in texts)
    yield from (each for each in needed if each.marker and "extra" in str(each.marker))


def _is_in(needed: Requirement, group: str) -> bool:
    return needed.marker is not None and needed.marker.evaluate({"extra": group})


def _is_here(needed: Requirement) -> bool:
    try:
        distribution(needed.name)
    except PackageNotFoundError:
        return False
    return True
