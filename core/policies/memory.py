"""Memory: what a policy has learned, kept in a file from run to run."""

import json
from pathlib import Path
from typing import Any, final

from outrider.errors import ConfigError


@final
class Memory:
    """The attributes of a policy that it learns, in a JSON file.

    policy: what learns. names: of its attributes, whose values JSON can hold.
    path: of the file, read here if it is there; none keeps nothing.

    Raises `ConfigError` for a file that is something else.
    """

    def __init__(self, policy: Any, path: str | None, *names: str) -> None:
        self._policy = policy
        self._path = None if path is None else Path(path).expanduser()
        self._names = names
        if self._path is None or not self._path.is_file():
            return
        try:
            learned = json.loads(self._path.read_text(encoding="utf-8"))
            found = {name: learned[type(policy).__name__][name] for name in names}
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"policy.state={path!r}: expected what {type(policy).__name__} has learned"
            ) from error
        for name, value in found.items():
            setattr(policy, name, value)

    def keep(self) -> None:
        """Writes the file; to be called once a prompt, when it ends."""
        if self._path is not None:
            values = {name: getattr(self._policy, name) for name in self._names}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            scratch = self._path.with_suffix(".new")
            scratch.write_text(json.dumps({type(self._policy).__name__: values}), encoding="utf-8")
            scratch.replace(self._path)
