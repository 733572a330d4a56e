"""One combination of parts and settings, in plain values that a command line can hold."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any, final

from outrider.base.bounds import AtLeast, OneOf, check
from outrider.base.errors import ConfigError, nearest, require

Settings = Mapping[str, Any]
"""The name of a part under its role, and its settings beside it: {"drafter": "bigram", "order": 3}.
"""

MODES = ("run", "enumerate")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What one run of the fuzzer does.

    target: as `outrider.extras.fuzzing.targets.make_target` takes it.
    drafter, verifier, policy: as `outrider.extras.fuzzing.parts` takes them.
    prompts: the ids of each text. Two or more are also written in one batch.
    constraint: the settings of `outrider.extras.fuzzing.parts.Cycle`; None for no constraint.
    interrupt: raise KeyboardInterrupt at this call of one of Outrider's functions, then write the
        text again; None for no interruption.
    mode: "enumerate" sums the probability of every text, for small settings; "run" draws texts.
    The others are options of `outrider.decode`.
    """

    target: Settings
    drafter: Settings
    verifier: Settings
    policy: Settings
    prompts: Sequence[Sequence[int]]
    sampling: Settings = field(default_factory=dict)
    gamma: int = 2
    budget: int | None = None
    max_new_tokens: int = 4
    stops: Sequence[str] = ()
    constraint: Settings | None = None
    interrupt: int | None = None
    mode: str = "run"

    @classmethod
    def of(cls, values: Any) -> "Example":
        """Returns the example with these fields.

        Raises:
            ConfigError: a field is missing or unknown.
        """
        check({"example": Mapping[str, Any]}, {"example": values})
        known = {item.name for item in fields(cls)}
        for name in values:
            if name not in known:
                raise ConfigError(f"example.{name}: {nearest(str(name), known)}")
        for name in ("target", "drafter", "verifier", "policy", "prompts"):
            require(name in values, f"example.{name}", None, "a value")
        example = cls(**{str(name): value for name, value in values.items()})
        hints = {
            "mode": Annotated[str, OneOf(MODES)],
            "prompts": Annotated[Sequence[Any], AtLeast(1)],
        }
        check(hints, {name: getattr(example, name) for name in hints}, "example")
        return example

    @property
    def subject(self) -> str:
        """Returns what was tried: the kind of target."""
        return str(self.target["kind"])

    @property
    def greedy(self) -> bool:
        """Returns whether the text is written at temperature 0."""
        return not self.sampling.get("temperature")

    def plain(self) -> dict[str, Any]:
        """Returns the fields that differ from their defaults, as plain values."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        default = asdict(Example(target={}, drafter={}, verifier={}, policy={}, prompts=()))
        return {
            name: value
            for name, value in values.items()
            if name in ("target", "drafter", "verifier", "policy", "prompts")
            or value != json.loads(json.dumps(default[name]))
        }

    def command(self) -> str:
        """Returns the shell command that runs this example alone."""
        return f"outrider fuzz {shlex.quote(f'example={in_hydra_grammar(self.plain())}')}"


def in_hydra_grammar(value: Any) -> str:
    """Returns a plain value as Hydra's command line reads it: JSON whose keys are not quoted.

    >>> in_hydra_grammar({"drafter": "random", "tree": [[0], [1]], "budget": None})
    '{drafter:"random",tree:[[0],[1]],budget:null}'
    """
    if isinstance(value, Mapping):
        items = (f"{name}:{in_hydra_grammar(item)}" for name, item in value.items())
        return "{" + ",".join(items) + "}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(in_hydra_grammar, value))}]"
    return json.dumps(value)
