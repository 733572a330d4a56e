"""Memory: what a policy has learned, in a file that the next run reads."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from outrider.base.errors import ConfigError
from outrider.base.folders import write_whole


@final
class Memory:
    """The learned values of one policy, in a JSON file.

    policy: the name under which the file holds the values.
    path: the file; None keeps nothing from run to run.
    """

    def __init__(self, policy: str, path: str | None) -> None:
        self._policy, self._setting = policy, path
        self._path = None if path is None else Path(path).expanduser()

    def load(self, initial: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values in the file under the names of `initial`; `initial` if there is none.

        Raises:
            ConfigError: the file holds something else.
        """
        if self._path is None or not self._path.is_file():
            return dict(initial)
        try:
            learned = json.loads(self._path.read_text(encoding="utf-8"))[self._policy]
            return {name: learned[name] for name in initial}
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"policy.state={self._setting!r}: expected what {self._policy} has learned"
            ) from error

    def save(self, values: Mapping[str, Any]) -> None:
        """Replaces the file by one with these values, which must fit JSON; call it once a prompt.

        If two processes share the file, the one that saves last wins.
        """
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps({self._policy: dict(values)}))
