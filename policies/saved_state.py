"""SavedState: what a policy has learned, in a file that the next run reads."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from outrider.base.contents import json_in
from outrider.base.errors import ConfigError
from outrider.base.folders import write_whole
from outrider.contract.policy import Policy


@final
class SavedState:
    """The learned values of one policy, in a JSON file.

    policy: whose they are; the file holds them under the name of its class.
    path: the file; None keeps nothing from run to run.
    """

    def __init__(self, policy: Policy, path: str | None) -> None:
        self._owner, self._setting = policy, path
        self._policy = type(policy).__name__
        self._path = None if path is None else Path(path).expanduser()

    def load(self, initial: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values in the file under the names of `initial`; `initial` if there is none.

        Raises:
            ConfigError: the file holds something else.
        """
        if self._path is None or not self._path.is_file():
            return dict(initial)
        try:
            content = json_in(self._path)
            learned = content[self._policy]
            # A file of an earlier version does not say how many there were.
            self._owner.texts_before = int(content.get("texts", 1))
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
            texts = self._owner.texts_before + sum(self._owner.texts.values())
            write_whole(self._path, json.dumps({self._policy: dict(values), "texts": texts}))
