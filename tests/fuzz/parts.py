"""One combination of parts and settings, in plain values, and the parts that they describe."""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from tiny.models import DECODERS, ENCODER_DECODERS, Entry, build
from torch import Tensor
from transformers import CONFIG_MAPPING

from outrider import ConfigError, Constraint, Drafter, Target
from outrider.plugins.parts import make
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget
from outrider.testing.table_drafters import ChainDrafter, TreeDrafter
from outrider.testing.tiny_targets import letters

TABLE = "table"
MODELS = ("llama", "gpt2", "mistral", "gemma2", "t5")
"""The kinds of models: with rotary and learned positions, sliding windows, and an encoder."""
MODEL_VOCAB, POSITIONS, WINDOW = 12, 24, 4
MODEL_SIZES: dict[str, Any] = {
    "vocab_size": MODEL_VOCAB,
    "max_position_embeddings": POSITIONS,
    "n_positions": POSITIONS,
    "sliding_window": WINDOW,
}

TABLE_DRAFTERS: dict[str, type[ChainDrafter | TreeDrafter]] = {
    "staged_chain": ChainDrafter,
    "staged_tree": TreeDrafter,
}
"""The kit's drafters, by their names in examples; each takes a `kind`."""


Settings = Mapping[str, Any]
"""The name of a part under its role, and its settings beside it: {"drafter": "bigram", "order": 3}.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """What one run does.

    target: as `make_target` takes it.
    prompts: the ids of each text. Two or more are also written in one batch.
    constraint: the settings of `Cycle`; None for no constraint.
    enumerate: sum the probability of every text, for small settings, instead of drawing texts.
    The others are options of `outrider.decode`.
    """

    target: Settings
    drafter: Settings
    verifier: Settings
    policy: Settings
    prompts: Sequence[Sequence[int]]
    sampling: Settings = dataclasses.field(default_factory=dict)
    gamma: int = 2
    budget: int | None = None
    max_new_tokens: int = 4
    stops: Sequence[str] = ()
    constraint: Settings | None = None
    enumerate: bool = False

    @property
    def greedy(self) -> bool:
        """Returns whether the text is written at temperature 0."""
        return not self.sampling.get("temperature")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of an example that broke no promise.

    kinds: what was checked: "greedy", "sampled", "lossy", "coupled", "enumerated" or "partly
        enumerated", and also "batch". Empty if a combination was refused.
    refused: the message of the refusal; None if it ran.
    """

    kinds: tuple[str, ...] = ()
    refused: str | None = None


def make_target(settings: Settings) -> Target:
    """Returns the target that an example describes. The settings are:

    kind: "table", or one of MODELS.
    eos: the ids that end a text.
    max_length: the length of the longest text.
    vocab_size, order, sharpness, encoder: of a table, as for `TabularTarget`.
    seed: the seed of a table, or of a model's random weights.
    zeros: the share of a table's tokens with probability zero; each row keeps at least two others.
    """
    values = dict(settings)
    kind, eos, longest = values.pop("kind"), values.pop("eos", ()), values.pop("max_length", None)
    target = _table(**values) if kind == TABLE else copy.copy(_model_target(kind, **values))
    target.eos = frozenset(eos)
    if longest is not None:
        target.max_length = min(longest, target.max_length or longest)
    return target


def _table(zeros: float = 0.0, **settings: Any) -> Any:
    target = TabularTarget(**settings)
    target.tokenizer = letters(target.vocab_size)
    if zeros and target.vocab_size > 2:
        draws = torch.rand(
            target.table.shape, generator=torch.Generator().manual_seed(settings.get("seed", 0))
        )
        lowest_two = draws.argsort(-1).argsort(-1) < 2
        target.table[(draws > 1 - zeros) & ~lowest_two] = float("-inf")
    return target


@cache
def _model_target(kind: str, seed: int = 0) -> Any:
    """Returns a random model in float64; its self-test runs once in a process."""
    class_name = {**ENCODER_DECODERS, **DECODERS}[kind]
    known = {declared.name for declared in dataclasses.fields(CONFIG_MAPPING[kind])}
    sizes = {name: size for name, size in MODEL_SIZES.items() if name in known}
    sizes["decoder_start_token_id"] = MODEL_VOCAB - 1
    model = build(Entry(kind, kind, class_name, sizes), seed)
    return TransformersTarget(model.double(), letters(MODEL_VOCAB), optimize="none")


def make_drafter(settings: Settings, target: Target) -> Drafter:
    """Returns a new drafter: one of the kit's, or any registered one.

    Raises `ConfigError` if the drafter does not take such settings.
    """
    kit = TABLE_DRAFTERS.get(settings["drafter"])
    table = TabularTarget(target.vocab_size)
    drafter: Drafter = kit(table, settings["kind"]) if kit else make("drafter", settings)
    return drafter


def drafter_kind(settings: Settings) -> str:
    """Returns the kind of the drafts that a drafter writes; "chain" of one that is refused."""
    if settings["drafter"] in TABLE_DRAFTERS:
        return str(settings["kind"]) if settings["drafter"] == "staged_tree" else "chain"
    try:
        drafter: Drafter = make("drafter", settings)
    except ConfigError:
        return "chain"
    return drafter.kind


def reads_the_clock(settings: Settings) -> bool:
    """Returns whether a policy decides by measured seconds, so that runs can't be repeated."""
    name = settings["policy"]
    return name in ("goodput", "cost_model", "utility") or (
        name in ("bandit", "optimal") and settings.get("c") is None
    )


def make_constraint(example: Example, start: int) -> Constraint | None:
    """Returns a new constraint of an example. start: the number of ids before the text."""
    return None if example.constraint is None else Cycle(start, **example.constraint)


class Cycle(Constraint):
    """Forbids one token at each position in turn, and may end the text at a token.

    start: the number of ids before the text.
    forbidden: the tokens to forbid at successive positions, over and over.
    end: the text ends when this token occurs for the second time. Defaults to never.
    """

    def __init__(self, start: int, forbidden: Sequence[int] = (), end: int | None = None) -> None:
        self._start, self._forbidden, self._end = start, forbidden, end

    def logits(self, ids: Sequence[int], logits: Float[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
        changed = logits.clone()
        if self._forbidden:
            changed[self._forbidden[len(ids) % len(self._forbidden)]] = float("-inf")
        return changed if bool(torch.isfinite(changed).any()) else logits

    def ends(self, ids: Sequence[int]) -> bool:
        return ids[-1] == self._end and list(ids[self._start :]).count(ids[-1]) >= 2
