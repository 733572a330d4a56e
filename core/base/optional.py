"""Libraries of optional groups of dependencies, and what to install where one is missing."""

import re
import sys
from importlib.metadata import requires
from importlib.util import find_spec

from outrider.base.errors import ConfigError

REQUIREMENT = re.compile(r"""([\w.-]+)[^;]*;.*\bextra == ['"](\w+)['"]""")
"""What metadata says of an optional dependency: its name, and the group that it is in."""


def require_installed(what: str, *libraries: str) -> None:
    """Checks before a long work that the libraries that it imports are there.

    Raises:
        ConfigError: one is not installed.
    """
    for library in libraries:
        if not (sys.modules.get(library) or find_spec(library)):
            raise ConfigError(f"{what} {what_to_install(library) or f'needs {library}'}")


def what_to_install(library: str | None) -> str | None:
    """Returns what to install for a library that is missing; None if no group has it.

    >>> what_to_install("matplotlib")
    "needs matplotlib: pip install 'outrider[view]'"
    """
    library = (library or "").partition(".")[0]
    for line in requires("outrider") or ():
        found = REQUIREMENT.match(line)
        if found and found[1].replace("-", "_").lower() == library:
            return f"needs {library}: pip install 'outrider[{found[2]}]'"
    return None
