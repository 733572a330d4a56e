"""What people hand over wrongly: each attempt ends well, or in one line that says what is wrong."""

import shlex
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, final

from outrider.base.bounds import OneOf, check
from outrider.base.errors import OutriderError
from outrider.extras.fuzzing.configs import run_config
from outrider.extras.fuzzing.example import in_hydra_grammar
from outrider.extras.fuzzing.objects import run_object
from outrider.extras.fuzzing.outcome import Outcome
from outrider.extras.fuzzing.templates import run_template
from outrider.extras.fuzzing.tokenizers import run_tokenizer

RUNNERS: Mapping[str, Callable[..., None]] = {
    "objects": run_object,
    "tokenizers": run_tokenizer,
    "templates": run_template,
    "configs": run_config,
}
"""By kind of attempt, what makes it: it raises OutriderError to refuse, and nothing else."""

LONGEST = 900
"""The most characters of a line that people still read."""


@final
@dataclass(frozen=True, slots=True)
class Attempt:
    """One object, text or config that is handed over.

    kind: a key of `RUNNERS`.
    values: what its runner takes, in plain values that a command line can hold.
    """

    kind: str
    values: Mapping[str, Any]

    @property
    def subject(self) -> str:
        """Returns what was tried: the kind of attempt."""
        return self.kind

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Attempt":
        """Returns the attempt that a failure prints; raises `ConfigError` for another kind."""
        given = {str(name): value for name, value in values.items()}
        check({"kind": Annotated[str, OneOf(RUNNERS)]}, {"kind": given.get("kind")}, "example")
        return cls(given.pop("kind"), given)

    def plain(self) -> dict[str, Any]:
        """Returns all of it as one mapping."""
        return {"kind": self.kind, **self.values}

    def command(self) -> str:
        """Returns the shell command that makes this attempt alone."""
        return f"outrider fuzz {shlex.quote(f'example={in_hydra_grammar(self.plain())}')}"

    def run(self) -> Outcome:
        """Makes the attempt.

        Raises:
            AssertionError: what it gave is wrong, or the line that refuses it is none.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                RUNNERS[self.kind](**self.values)
        except OutriderError as error:
            line = str(error)
            assert line and "\n" not in line and len(line) <= LONGEST, f"no line: {line!r}"
            assert "extras/fuzzing" not in line or " raised " in line, f"the fuzzer fails: {line}"
            return Outcome((self.kind,), refused=line)
        return Outcome((self.kind,), texts=1)
