"""The groups of optional dependencies of a distribution, such as `outrider[view]`."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, requires

from packaging.requirements import Requirement


def lacking(owner: str, group: str) -> list[str]:
    """Returns the libraries of a group that are not installed. owner: the distribution."""
    return [name for name, of in _libraries(owner) if of == group and not _is_here(name)]


def group_with(library: str, owner: str = "outrider") -> str | None:
    """Returns the group of a distribution that brings a library; None if there is none."""
    return next((group for name, group in _libraries(owner) if name == library), None)


def _libraries(owner: str) -> Iterator[tuple[str, str]]:
    """Yields the optional libraries, each with its group; none of what was not installed."""
    for needed in map(Requirement, (requires(owner) or ()) if _is_here(owner) else ()):
        condition, _, group = str(needed.marker).replace('"', "").rpartition("extra == ")
        holds = not condition or (needed.marker and needed.marker.evaluate({"extra": group}))
        if group and holds:
            yield needed.name, group


def _is_here(name: str) -> bool:
    try:
        return distribution(name) is not None
    except PackageNotFoundError:
        return False
