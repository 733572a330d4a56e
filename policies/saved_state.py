"""SavedState: what a policy has learned, in a file that the next run reads."""

import json
from pathlib import Path
from typing import Any, final

from outrider.base.contents import json_in
from outrider.base.errors import refusing
from outrider.base.folders import write_whole
from outrider.contract.policy import Policy
from outrider.contract.round import Round


@final
class SavedState:
    """The learned values of one policy, in a JSON file: some of its attributes.

    policy: whose they are, and who is given them; the file has them under the name of its class.
    path: the file; None keeps nothing from run to run.
    initial: the attributes' values where there is no file.

    Raises `ConfigError` if the file holds something else.
    """

    def __init__(self, policy: Policy, path: str | None, **initial: Any) -> None:
        self._owner = policy
        self._policy = type(policy).__name__
        self._path = None if path is None else Path(path).expanduser()
        self._names = tuple(initial)
        line = f"policy.state={path!r}: expected what {self._policy} has learned"
        with refusing(line, ValueError, KeyError, TypeError):
            if self._path is not None and self._path.is_file():
                content = json_in(self._path)
                # A file of an earlier version does not say how many there were.
                policy.texts_before = int(content.get("texts", 1))
                initial = {name: content[self._policy][name] for name in initial}
        for name, value in initial.items():
            setattr(policy, name, value)

    def save_after(self, round: Round) -> None:
        """Replaces the file by one with the values, which must fit JSON, once a text has ended.

        If two processes share the file, the one that saves last wins.
        """
        if self._path is not None and round.stop is not None:
            texts = self._owner.texts_before + sum(self._owner.texts.values())
            values = {name: getattr(self._owner, name) for name in self._names}
            write_whole(self._path, json.dumps({self._policy: values, "texts": texts}))
