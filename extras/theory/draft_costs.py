"""What drafts cost by the kind of drafter: which passes they take, of what shape."""

from dataclasses import dataclass, replace
from typing import Any, Literal, final

from outrider.base.errors import ConfigError, nearest, require
from outrider.extras.theory.roofline import Place, pass_seconds
from outrider.extras.theory.shapes import Shape, read_shape

Kind = Literal["lookup", "model", "head", "heads", "block"]

KINDS: dict[str, dict[str, Any]] = {
    "lookup": {"kind": "lookup"},
    "eagle": {"kind": "head", "layers": 1, "joined": 2},
    "eagle3": {"kind": "head", "layers": 1, "joined": 3, "vocabulary": 32_000},
    "medusa": {"kind": "heads", "layers": 0},
    "dflash": {"kind": "block", "layers": 5},
}
"""By name, the drafters whose shape follows from the target's."""

MODULES = {
    "prompt_lookup": "lookup", "ngram": "lookup", "suffix": "lookup", "rest": "lookup",
    "token_recycling": "lookup", "eagle": "eagle", "mtp": "eagle", "eagle3": "eagle3",
    "medusa": "medusa", "dflash": "dflash",
}  # fmt: skip
"""By the module of a drafter, what its cost is like."""


@final
@dataclass(frozen=True, slots=True)
class Drafting:
    """How a drafter drafts.

    kind: `lookup` computes nothing; `model` and `head` take a pass for each token of depth;
        `block` takes one pass with a row for each token, and `heads` one with a row in all, which
        reads a head for each token.
    shape: of its passes; None for `lookup`.
    """

    name: str
    kind: Kind
    shape: Shape | None = None

    def seconds(self, place: Place, depth: int, nodes: int) -> float:
        """Returns the seconds of the drafts of all texts.

        depth: that of a draft. nodes: its tokens, more than `depth` for a tree.
        """
        if self.shape is None or depth == 0:
            return 0.0
        if self.kind == "heads":
            each = self.shape.hidden**2 + self.shape.table_weights
            reading = replace(self.shape, extra=depth * each, vocabulary=0)
            return pass_seconds(reading, place, 1)
        if self.kind == "block":
            return pass_seconds(self.shape, place, depth)
        return depth * pass_seconds(self.shape, place, -(-nodes // depth))


def drafting_of(item: Any, target: Shape) -> Drafting:
    """Returns what a name stands for, or a mapping with `name` and settings of a kind.

    A mapping has `model`, the config of a model, or the `kind`, `layers` and `vocabulary` of a head
    or block whose layers have the target's shape.

    Raises:
        ConfigError: it is neither.
    """
    given: dict[str, Any] = {"name": item} if isinstance(item, str) else dict(item)
    name = str(given.pop("name", given.get("model", "drafter")))
    if "model" in given:
        return Drafting(name, "model", read_shape(str(given["model"]), given.get("bits")))
    settings = {**KINDS.get(str(given.pop("like", name)), {}), **given}
    if "kind" not in settings:
        raise ConfigError(f"drafters: {name!r}: {nearest(name, KINDS)}, or a mapping with model")
    kinds = Kind.__args__  # type: ignore[attr-defined]
    require(settings["kind"] in kinds, f"drafters: {name}.kind", settings["kind"], ", ".join(kinds))
    if settings["kind"] == "lookup":
        return Drafting(name, "lookup")
    shape = replace(
        target,
        layers=int(settings.get("layers", 1)),
        vocabulary=int(settings.get("vocabulary", target.vocabulary)),
        extra=int(settings.get("joined", 0)) * target.hidden**2,
        experts=0,
        bits=float(settings.get("bits", target.bits)),
    )
    return Drafting(name, settings["kind"], shape)
