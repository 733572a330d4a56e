"""Roles: what a plugin can register, each by a hook of its own and as a config group."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any, final


@final
@dataclass(frozen=True, slots=True)
class Role:
    """What the parts of a role are.

    hook: the hook that registers them.
    help: what the role is, in a few words.
    base: where the class is that they derive from; None if any callable will do.
    """

    hook: str
    help: str
    base: str | None = None

    @property
    def kind(self) -> type[Any] | None:
        """Returns the class that the parts derive from, which is imported only now."""
        return None if self.base is None else resolve_name(self.base)


ROLES: dict[str, Role] = {
    "target": Role(
        "register_targets", "the model whose text is wanted", "outrider.contract.target:Target"
    ),
    "drafter": Role(
        "register_drafters", "what proposes tokens", "outrider.contract.drafter:Drafter"
    ),
    "verifier": Role(
        "register_verifiers", "the acceptance rule", "outrider.contract.verifier:Verifier"
    ),
    "policy": Role("register_policies", "how long to draft", "outrider.contract.policy:Policy"),
    "engine": Role(
        "register_engines", "what runs a model's passes", "outrider.targets.passes.engine:Engine"
    ),
    "constraint": Role(
        "register_constraints",
        "what texts must follow, such as regex",
        "outrider.contract.constraint:Constraint",
    ),
    "data": Role("register_data_sources", "the prompts"),
    "recipe": Role("register_recipes", "how to train; the drafter's own by default"),
    "report": Role(
        "register_reports",
        "what follows a run, such as a logger",
        "outrider.lab.runs.report:Report",
    ),
    "score": Role("register_scores", "what judges answers", "outrider.data.score:Score"),
}
"""By name, which is also the name of the config group."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """Annotates a setting that lists parts of a role, by names or as mappings with settings.

    The setting becomes their configs by name; see `outrider.plugins.reading.option_configs`.

    own: what an item may have for itself beside its settings, a part of another role or a value of
        a type. The setting then becomes by name a mapping of the role to the config, and of these.
    or_one: whether a single name stands for a list of it.
    """

    role: str
    own: Mapping[str, Any] = field(default_factory=dict)
    or_one: bool = False


Named = str | Mapping[str, Any]
"""A part by its name, or as a mapping with settings; see `outrider.plugins.parts.make`."""


def kind_of(role: str) -> type[Any] | None:
    """Returns the class that the parts of a role, or a sampling, derive from; None for any."""
    if role in ROLES:
        return ROLES[role].kind
    # A sampling is chosen by name too, but never registered.
    is_sampling = role == "sampling"
    return resolve_name("outrider.contract.sampling:Sampling") if is_sampling else None


def plural(role: str) -> str:
    """Returns the plural of a role's name: `policies` for `policy`."""
    return role.removesuffix("y") + "ies" if role.endswith("y") else f"{role}s"
